"""acks=all: a producer is told of its batch when every in-sync replica has it."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from penstock.broker.api import produce as produce_api
from penstock.broker.network.dispatch import Dispatch, api_key_of
from penstock.broker.request.pending_reply import Parts, PendingReply
from penstock.broker.request.request_stats import RequestStats
from penstock.metadata.image.topic import PartitionImage
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch
from penstock.wire.api import ApiKey
from penstock.wire.header import decode_correlation_id, decode_response, encode_request
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.world.ports import Address
from rig.data_requests import produce_request
from rig.produced import produced
from rig.services import LISTENER, NODE, OTHER, Broker

THIRD = NodeId(3)
REPLICAS = (NODE, OTHER, THIRD)
PEER = Address(host="127.0.0.1", port=1)
NAMED_VERSIONS = range(3, 13)  # older ones carry no batches, later ones name topics by id


def send(
    broker: Broker, request: ProduceRequest, *, version: int = 12, correlation_id: int = 7
) -> Parts | PendingReply:
    """As a connection would hand it to dispatch."""
    parts = encode_request(request, version=version, correlation_id=correlation_id, client_id="t")
    frame = memoryview(bytearray(b"".join(cast(list[bytes], parts))))[4:]
    dispatch = Dispatch(broker.services, [produce_api.API], listener=LISTENER)
    answer = dispatch.answer(
        frame, api_key_of(frame), peer=PEER, received_ms=broker.world.clock.monotonic_ms()
    )
    frame[:] = bytes(len(frame))  # as the next request would overwrite it
    assert isinstance(answer, (list, PendingReply))
    return answer


def waiting(broker: Broker, request: ProduceRequest, *, version: int = 12) -> PendingReply:
    answer = send(broker, request, version=version)
    assert isinstance(answer, PendingReply)
    assert answer.parts is None
    return answer


def read(answer: Parts | PendingReply, *, version: int = 12) -> ProduceResponse:
    parts = answer.parts if isinstance(answer, PendingReply) else answer
    assert parts is not None, "not answered"
    frame = memoryview(b"".join(cast(list[bytes], parts)))[4:]
    assert decode_correlation_id(frame) == 7
    return decode_response(ProduceResponse, version, frame)


def code(answer: Parts | PendingReply, *, version: int = 12) -> ErrorCode:
    [topic] = read(answer, version=version).responses
    [partition] = topic.partition_responses
    return ErrorCode(partition.error_code)


def fetched(broker: Broker, node: NodeId, offset: int, *, index: int = 0) -> None:
    now_ms = broker.world.clock.monotonic_ms()
    broker.partition("t", index).follower_fetched(node, offset=offset, now_ms=now_ms)


def to_partitions(*indexes: int) -> ProduceRequest:
    partitions = [PartitionProduceData(index=index, records=produced()) for index in indexes]
    topic = TopicProduceData(name="t", partition_data=partitions)
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def lead_elsewhere(broker: Broker, *, leader: NodeId, epoch: int) -> None:
    topic = broker.services.image.topics_by_name["t"]
    partitions = tuple(
        replace(
            partition,
            leader=leader,
            leader_epoch=LeaderEpoch(epoch),
            partition_epoch=partition.partition_epoch + 1,
        )
        for partition in topic.partitions
    )
    broker.change_topic(replace(topic, partitions=partitions))


def shrink(broker: Broker, *isr: NodeId) -> None:
    topic = broker.services.image.topics_by_name["t"]
    [before] = topic.partitions
    after: PartitionImage = replace(before, isr=isr, partition_epoch=before.partition_epoch + 1)
    broker.change_topic(replace(topic, partitions=(after,)))


@pytest.mark.parametrize("version", NAMED_VERSIONS)
def test_an_ack_comes_when_all_in_sync_replicas_have_the_batch(
    broker: Broker, version: int
) -> None:
    broker.create_topic("t", replicas=REPLICAS)
    reply = waiting(broker, produce_request("t", produced(3)), version=version)
    fetched(broker, OTHER, 3)
    fetched(broker, THIRD, 2)
    assert reply.parts is None
    fetched(broker, THIRD, 3)
    [topic] = read(reply, version=version).responses
    [answer] = topic.partition_responses
    assert (answer.error_code, answer.base_offset, answer.index) == (0, 0, 0)
    assert len(broker.partition("t").acks) == 0


def test_acks_come_in_the_order_of_the_log(broker: Broker) -> None:
    broker.create_topic("t", replicas=REPLICAS)
    replies = [waiting(broker, produce_request("t", produced())) for _ in range(5)]
    for node in (OTHER, THIRD):
        fetched(broker, node, 3)
    assert [reply.parts is not None for reply in replies] == [True] * 3 + [False] * 2
    for node in (OTHER, THIRD):
        fetched(broker, node, 5)
    offsets = [read(reply).responses[0].partition_responses[0].base_offset for reply in replies]
    assert offsets == [0, 1, 2, 3, 4]


def test_the_ack_of_a_retried_batch_waits_too(broker: Broker) -> None:
    broker.create_topic("t", replicas=REPLICAS)
    batches = [produced(producer_id=1, epoch=0, sequence=0) for _ in range(2)]
    first, second = (waiting(broker, produce_request("t", batch)) for batch in batches)
    for node in (OTHER, THIRD):
        fetched(broker, node, 1)
    assert code(first) == code(second) == ErrorCode.NONE
    again = send(broker, produce_request("t", produced(producer_id=1, epoch=0, sequence=0)))
    assert code(again) == ErrorCode.NONE
    assert broker.partition("t").log.end_offset == 1


def test_the_leaders_ack_waits_for_nobody(broker: Broker) -> None:
    broker.create_topic("t", replicas=REPLICAS)
    assert code(send(broker, produce_request("t", produced(), acks=1))) == ErrorCode.NONE
    assert broker.partition("t").high_watermark == 0


def test_a_produce_to_several_partitions_is_answered_when_the_last_one_is_acked(
    broker: Broker,
) -> None:
    broker.create_topic("t", partitions=3, replicas=REPLICAS)
    reply = waiting(broker, to_partitions(0, 1, 2))
    for index in (2, 0):
        for node in (OTHER, THIRD):
            fetched(broker, node, 1, index=index)
    assert reply.parts is None
    for node in (OTHER, THIRD):
        fetched(broker, node, 1, index=1)
    [topic] = read(reply).responses
    assert [one.error_code for one in topic.partition_responses] == [0, 0, 0]


@pytest.mark.parametrize("version", NAMED_VERSIONS)
@pytest.mark.parametrize("several", [False, True])
def test_who_waits_when_the_leader_moves_is_told_the_new_one(
    broker: Broker, version: int, several: bool
) -> None:
    broker.create_topic("t", partitions=2, replicas=REPLICAS)
    request = to_partitions(0, 1) if several else produce_request("t", produced())
    reply = waiting(broker, request, version=version)
    lead_elsewhere(broker, leader=OTHER, epoch=1)
    response = read(reply, version=version)
    for answer in response.responses[0].partition_responses:
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader = answer.current_leader
        if version >= 10:
            assert leader is not None
            assert (leader.leader_id, leader.leader_epoch) == (OTHER, 1)
    ports = [(node.node_id, node.port) for node in response.node_endpoints]
    assert ports == ([(OTHER, 9093)] if version >= 10 else [])


def test_a_new_epoch_of_the_same_leader_keeps_acks_waiting(broker: Broker) -> None:
    """The records stand; followers have to say again how far they are."""
    broker.create_topic("t", replicas=REPLICAS)
    reply = waiting(broker, produce_request("t", produced()))
    fetched(broker, OTHER, 1)
    lead_elsewhere(broker, leader=NODE, epoch=1)
    fetched(broker, THIRD, 1)
    assert reply.parts is None
    fetched(broker, OTHER, 1)
    assert code(reply) == ErrorCode.NONE


def test_too_few_in_sync_replicas_refuse_a_batch(broker: Broker) -> None:
    broker.create_topic("t", replicas=REPLICAS, config={"min.insync.replicas": "2"})
    shrink(broker, NODE)
    answer = send(broker, produce_request("t", produced()))
    assert code(answer) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert broker.partition("t").log.end_offset == 0
    assert code(send(broker, produce_request("t", produced(), acks=1))) == ErrorCode.NONE


def test_replicas_that_are_lost_while_a_batch_waits_are_told(broker: Broker) -> None:
    broker.create_topic("t", replicas=REPLICAS, config={"min.insync.replicas": "2"})
    reply = waiting(broker, produce_request("t", produced()))
    shrink(broker, NODE)
    assert code(reply) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert broker.partition("t").high_watermark == 0


@pytest.mark.parametrize("several", [False, True])
def test_acks_that_do_not_come_are_logged(
    broker: Broker, several: bool, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("t", partitions=2, replicas=REPLICAS)
    request = to_partitions(0, 1) if several else produce_request("t", produced())
    waiting(broker, request)
    lead_elsewhere(broker, leader=OTHER, epoch=1)
    told = [line for line in caplog.messages if line.startswith("produce not acknowledged ")]
    assert told == [
        f"produce not acknowledged partition=t-{index} error=NOT_LEADER_OR_FOLLOWER"
        " correlation_id=7"
        for index in range(1 + several)
    ]


@pytest.mark.parametrize("level", [logging.WARNING, logging.CRITICAL])
def test_each_batch_that_is_not_acked_in_time_is_counted_for_its_topic(
    broker: Broker, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level)
    broker.create_topic("t", partitions=2, replicas=REPLICAS)
    waiting(broker, produce_request("t", produced(), timeout_ms=0))
    several = to_partitions(0, 1, 7)  # the last one is not there
    several.timeout_ms = 0
    waiting(broker, several)
    acked = waiting(broker, produce_request("t", produced(), timeout_ms=60_000))
    broker.partitions.ack_deadlines.expire()
    for node in (OTHER, THIRD):
        fetched(broker, node, 3)
    assert code(acked) == ErrorCode.NONE
    traffic = broker.partitions.traffic["t"]
    assert (traffic.unacked_produces, traffic.failed_produces) == (3, 0)


def test_a_replica_that_leaves_the_set_is_not_waited_for(broker: Broker) -> None:
    broker.create_topic("t", replicas=REPLICAS, config={"min.insync.replicas": "2"})
    reply = waiting(broker, produce_request("t", produced()))
    fetched(broker, OTHER, 1)
    shrink(broker, NODE, OTHER)
    assert code(reply) == ErrorCode.NONE


def test_an_ack_that_does_not_come_in_time_is_told_and_the_batch_stays(broker: Broker) -> None:
    async def scenario() -> None:
        broker.create_topic("t", partitions=2, replicas=REPLICAS)
        request = produce_request("t", produced(), timeout_ms=20)
        late = broker.send(produce_api.API, request, version=12)
        patient = waiting(broker, produce_request("t", produced(), timeout_ms=600_000))
        assert late is not None
        response = await cast(asyncio.Future[ProduceResponse], late)
        [answer] = response.responses[0].partition_responses
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert patient.parts is None
        for node in (OTHER, THIRD):
            fetched(broker, node, 2)
        assert code(patient) == ErrorCode.NONE
        assert broker.partition("t").log.end_offset == 2

    asyncio.run(asyncio.wait_for(scenario(), 120))


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_who_does_not_want_to_wait_is_told_at_once(broker: Broker, timeout_ms: int) -> None:
    broker.create_topic("t", replicas=REPLICAS)
    reply = waiting(broker, produce_request("t", produced(), timeout_ms=timeout_ms))
    broker.partitions.ack_deadlines.expire()
    assert code(reply) == ErrorCode.REQUEST_TIMED_OUT


def test_acks_of_many_times_are_given_up_each_at_its_own(broker: Broker) -> None:
    broker.create_topic("t", replicas=REPLICAS)
    times = (60_000, 0, 120_000, -5, 60_000)
    replies = [
        waiting(broker, produce_request("t", produced(), timeout_ms=timeout_ms))
        for timeout_ms in times
    ]
    broker.partitions.ack_deadlines.expire()
    assert [reply.parts is not None for reply in replies] == [ms <= 0 for ms in times]
    broker.partition("t").check()
    for node in (OTHER, THIRD):
        fetched(broker, node, len(times))
    codes = [code(reply) for reply in replies]
    assert codes == [ErrorCode.REQUEST_TIMED_OUT if ms <= 0 else ErrorCode.NONE for ms in times]


def test_each_ack_that_fails_is_counted_once(broker: Broker) -> None:
    stats = broker.services.request_stats = RequestStats()
    broker.create_topic("t", partitions=2, replicas=REPLICAS)
    late = waiting(broker, produce_request("t", produced(), timeout_ms=0))
    several = to_partitions(0, 1, 7)  # the last one is not there
    several.timeout_ms = 0
    waiting(broker, several)
    acked = waiting(broker, produce_request("t", produced(), timeout_ms=60_000))
    broker.partitions.ack_deadlines.expire()
    for node in (OTHER, THIRD):
        fetched(broker, node, 3)
    assert (code(late), code(acked)) == (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE)
    assert stats.errors == {
        (ApiKey.PRODUCE, ErrorCode.REQUEST_TIMED_OUT): 3,
        (ApiKey.PRODUCE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): 1,
    }


@pytest.mark.parametrize("several", [False, True])
def test_an_abandoned_reply_leaves_no_trace(broker: Broker, several: bool) -> None:
    broker.create_topic("t", partitions=2, replicas=REPLICAS)
    request = to_partitions(0, 1) if several else produce_request("t", produced())
    gone, other = waiting(broker, request), waiting(broker, produce_request("t", produced()))
    gone.abandon()
    assert len(broker.partition("t").acks) == 1
    assert len(broker.partition("t", 1).acks) == 0
    for node in (OTHER, THIRD):
        fetched(broker, node, 2)
    assert gone.parts is None
    assert code(other) == ErrorCode.NONE
    for index in range(2):
        broker.partition("t", index).check()


def test_a_disk_that_fails_under_a_later_batch_is_told_for_the_earlier_ones(
    tmp_path: Path,
) -> None:
    broker = Broker(tmp_path, directories=("a", "b"))
    broker.create_topic("t", partitions=6, replicas=REPLICAS)
    homes = [Path(broker.partition("t", index).log.directory).parent.name for index in range(6)]
    first, last = [index for index, home in enumerate(homes) if home == "b"][:2]
    good = homes.index("a")
    log = broker.partition("t", last).log
    log.segments[-1].file.spoil(OSError(5, "Input/output error"))  # type: ignore[attr-defined]
    reply = waiting(broker, to_partitions(first, good, last))
    for node in (OTHER, THIRD):
        fetched(broker, node, 1, index=good)
    [topic] = read(reply).responses
    codes = {one.index: ErrorCode(one.error_code) for one in topic.partition_responses}
    lost = ErrorCode.KAFKA_STORAGE_ERROR
    assert codes == {first: lost, good: ErrorCode.NONE, last: lost}
    broker.close()
