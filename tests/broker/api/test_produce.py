"""Produce: what a producer is told, version by version, fault by fault."""

import asyncio
from pathlib import Path

import pytest

from penstock.broker.api import produce as produce_api
from penstock.model.error import CloseConnection, ErrorCode, RequestError
from penstock.records.compression import Codec
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from rig.data_requests import produce, produce_request
from rig.memory_disk import MemoryDisk
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker


def test_records_get_dense_offsets_and_a_reply_at_once(broker: Broker) -> None:
    broker.create_topic("t")
    first, second = produce(broker, "t", produced(3)), produce(broker, "t", produced(2))
    assert (first.error_code, first.base_offset, first.log_start_offset) == (0, 0, 0)
    assert second.base_offset == 3
    assert broker.partition("t").high_watermark == 5


@pytest.mark.parametrize("version", range(3, 14))
def test_every_served_version_is_answered(broker: Broker, version: int) -> None:
    topic_id = broker.create_topic("t")
    request = produce_request("t", produced(), topic_id=topic_id)
    response = broker.ask(produce_api.API, request, ProduceResponse, version=version)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(3))
def test_versions_of_old_formats_are_refused(broker: Broker, version: int) -> None:
    request = produce_request("t", produced())
    with pytest.raises(RequestError) as error:
        broker.send(produce_api.API, request, version=version)
    assert error.value.code == ErrorCode.UNSUPPORTED_VERSION
    refusal = produce_api.refuse(request, error.value.code, error.value.message)
    assert refusal.responses[0].partition_responses[0].error_code == error.value.code


def test_each_partition_has_its_own_outcome(broker: Broker) -> None:
    broker.create_topic("t", 2)
    bad = produced()
    bad[-1] ^= 1
    request = ProduceRequest(
        acks=1,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[
                    PartitionProduceData(index=0, records=produced()),
                    PartitionProduceData(index=1, records=bad),
                    PartitionProduceData(index=2, records=produced()),
                ],
            ),
            TopicProduceData(
                name="nowhere", partition_data=[PartitionProduceData(records=produced())]
            ),
        ],
    )
    response = broker.ask(produce_api.API, request, ProduceResponse, version=9)
    codes = [
        answer.error_code for topic in response.responses for answer in topic.partition_responses
    ]
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert response.responses[0].partition_responses[1].base_offset == -1


def test_a_missing_batch_is_an_invalid_record(broker: Broker) -> None:
    broker.create_topic("t")
    assert produce(broker, "t", None).error_code == ErrorCode.INVALID_RECORD
    assert produce(broker, "t", memoryview(bytearray())).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("acks", [-2, 2, 7])
def test_unknown_acks_are_refused(broker: Broker, acks: int) -> None:
    broker.create_topic("t")
    request = produce_request("t", produced(), acks=acks)
    response = broker.ask(produce_api.API, request, ProduceResponse, version=9)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert broker.partition("t").log.end_offset == 0


def test_faulty_records_are_named(broker: Broker) -> None:
    broker.create_topic("t", config={"cleanup.policy": "compact"})
    answer = produce(broker, "t", produced(2, key=None))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert answer.error_message
    assert answer.log_start_offset == 0


def test_a_batch_larger_than_the_topic_allows_is_refused(broker: Broker) -> None:
    broker.create_topic("t", config={"max.message.bytes": "200"})
    answer = produce(broker, "t", produced(value=bytes(300)))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_needs_version_seven(broker: Broker) -> None:
    broker.create_topic("t")
    early = produce(broker, "t", produced(codec=Codec.ZSTD), version=6)
    assert early.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(broker, "t", produced(codec=Codec.ZSTD), version=7).error_code == ErrorCode.NONE


def test_unknown_topic_ids_are_told_apart_from_unknown_partitions(broker: Broker) -> None:
    topic_id = broker.create_topic("t")
    for asked, index, code in (
        (bytes(15) + b"\x77", 0, ErrorCode.UNKNOWN_TOPIC_ID),
        (topic_id, 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (topic_id, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        request = produce_request("", produced(), topic_id=asked, index=index)
        response = broker.ask(produce_api.API, request, ProduceResponse, version=13)
        assert response.responses[0].topic_id == asked
        assert response.responses[0].partition_responses[0].error_code == code


def test_a_retry_is_acked_with_its_first_offset(broker: Broker) -> None:
    broker.create_topic("t")
    for _ in range(2):
        batch = produced(2, producer_id=5, epoch=0, sequence=0)
        assert produce(broker, "t", batch).base_offset == 0
    gap = produce(broker, "t", produced(producer_id=5, epoch=0, sequence=7))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert broker.partition("t").log.end_offset == 2


def test_who_names_no_transaction_may_not_write_in_one(broker: Broker) -> None:
    broker.create_topic("t")
    batch = produced(producer_id=5, epoch=0, sequence=0, transactional=True)
    stranger = produce(broker, "t", batch)
    assert stranger.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert broker.partition("t").log.end_offset == 0


@pytest.mark.parametrize("in_one_topic", [True, False])
def test_of_a_partition_named_twice_the_last_batch_counts(
    broker: Broker, in_one_topic: bool
) -> None:
    broker.create_topic("t", 2)
    data = [
        PartitionProduceData(index=index, records=produced(count))
        for index, count in ((0, 3), (1, 1), (0, 2))
    ]
    topics = [TopicProduceData(name="t", partition_data=data)]
    if not in_one_topic:
        topics = [TopicProduceData(name="t", partition_data=[one]) for one in data]
    request = ProduceRequest(acks=1, topic_data=topics)
    response = broker.ask(produce_api.API, request, ProduceResponse, version=9)
    (topic,) = response.responses
    assert [(one.index, one.error_code) for one in topic.partition_responses] == [(0, 0), (1, 0)]
    assert broker.partition("t").log.end_offset == 2


def test_log_append_time_is_told(broker: Broker) -> None:
    broker.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    before = broker.world.clock.now_ms()
    answer = produce(broker, "t", produced())
    assert before <= answer.log_append_time_ms <= broker.world.clock.now_ms()
    broker.create_topic("u")
    assert produce(broker, "u", produced()).log_append_time_ms == -1


def test_clients_may_not_write_to_internal_topics(broker: Broker) -> None:
    broker.create_topic("__consumer_offsets")
    answer = produce(broker, "__consumer_offsets", produced())
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    request = produce_request("__consumer_offsets", produced(), acks=1)
    tool = broker.ask(
        produce_api.API, request, ProduceResponse, version=9, client_id="__admin_client"
    )
    (refused,) = tool.responses[0].partition_responses
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    hidden = produce(broker, "__cluster_metadata", produced())
    assert hidden.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_without_acks_nothing_is_answered_and_an_error_closes_the_connection(
    broker: Broker,
) -> None:
    broker.create_topic("t")
    request = produce_request("t", produced(), acks=0)
    assert broker.send(produce_api.API, request, version=9) is None
    assert broker.partition("t").log.end_offset == 1
    unknown = produce_request("nowhere", produced(), acks=0)
    with pytest.raises(CloseConnection):
        broker.send(produce_api.API, unknown, version=9)


def test_versions_of_old_formats_without_acks_close_the_connection(broker: Broker) -> None:
    request = produce_request("t", produced(), acks=0)
    with pytest.raises(CloseConnection):
        broker.send(produce_api.API, request, version=2)


def test_a_full_disk_is_told_and_costs_no_offset(tmp_path: Path) -> None:
    disk = MemoryDisk()
    broker = Broker(tmp_path, disk=disk)
    broker.create_topic("t")
    produce(broker, "t", produced(2))
    disk.faults.calls, disk.faults.fail_at = 0, 0
    assert produce(broker, "t", produced(2)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    broker.partition("t").check()
    assert produce(broker, "t", produced(2)).base_offset == 2
    broker.close()


def test_the_wrong_broker_names_the_leader(broker: Broker) -> None:
    broker.create_topic("t", leader=OTHER, replicas=(OTHER,), leader_epoch=4)
    request = produce_request("t", produced())
    response = broker.ask(produce_api.API, request, ProduceResponse, version=10)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader is not None
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (OTHER, 4)
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [(OTHER, 9093)]


def test_all_acks_wait_for_the_followers(broker: Broker) -> None:
    broker.create_topic("t", replicas=(NODE, OTHER))
    partition = broker.partition("t")

    async def scenario() -> ProduceResponse:
        waiting = broker.send(produce_api.API, produce_request("t", produced(2)), version=9)
        assert asyncio.iscoroutine(waiting)
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        assert not task.done()
        partition.follower_fetched(OTHER, offset=2, now_ms=NOW_MS)
        return await task

    response = asyncio.run(scenario())
    answer = response.responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    assert not partition.ack_observers


def test_all_acks_that_do_not_come_in_time_are_a_timeout(broker: Broker) -> None:
    broker.create_topic("t", replicas=(NODE, OTHER))
    request = produce_request("t", produced(), timeout_ms=5)
    response = broker.ask(produce_api.API, request, ProduceResponse, version=9)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert not broker.partition("t").ack_observers


def test_a_topic_deleted_while_acks_are_awaited_ends_the_wait(broker: Broker) -> None:
    broker.create_topic("t", replicas=(NODE, OTHER))

    async def scenario() -> ProduceResponse:
        request = produce_request("t", produced(), timeout_ms=60_000)
        waiting = broker.send(produce_api.API, request, version=9)
        assert asyncio.iscoroutine(waiting)
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        broker.delete_topic("t")
        return await task

    answer = asyncio.run(scenario()).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_acks_of_the_leader_do_not_wait(broker: Broker) -> None:
    broker.create_topic("t", replicas=(NODE, OTHER))
    request = produce_request("t", produced(), acks=1)
    response = broker.send(produce_api.API, request, version=9)
    assert isinstance(response, ProduceResponse)


def test_bytes_after_a_transactional_batch_of_a_stranger_are_ignored(broker: Broker) -> None:
    """The batch is refused as it would be without them."""
    broker.create_topic("t")
    batch = produced(1, producer_id=9, epoch=0, sequence=0, transactional=True)
    for version in (8, 9):
        for junk in (b"", b"\0\0\0"):
            request = produce_request("t", memoryview(bytearray(batch) + junk))
            response = broker.ask(produce_api.API, request, ProduceResponse, version=version)
            answer = response.responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
