"""Fetch: what a consumer is given at once."""

import pytest

from penstock.broker.api import fetch as fetch_api
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NO_TOPIC_ID
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.batch import BatchView, batches
from penstock.wire.codec import encode_parts
from penstock.wire.messages.fetch import FetchPartition, ReplicaState
from penstock.world.ports import FileRange
from rig.data_requests import at, bytes_of, fetch, fetch_request, only, produce
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker


def offsets_of(data: bytes) -> list[int]:
    return [batch.base_offset for batch in batches(memoryview(data))]


def test_what_was_produced_is_fetched_byte_for_byte_from_the_file(broker: Broker) -> None:
    broker.create_topic("t")
    sent = [produced(2), produced(3)]
    for data in sent:
        produce(broker, "t", data)
    answer = only(fetch(broker, fetch_request("t", at(0))))
    assert isinstance(answer.records, FileRange)
    received = bytes_of(answer)
    assert offsets_of(received) == [0, 2]
    assert received[17:] == bytes(sent[0][17:]) + received[
        len(sent[0]) : len(sent[0]) + 17
    ] + bytes(sent[1][17:])
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (5, 5, 0)
    assert answer.aborted_transactions is None
    assert answer.preferred_read_replica == -1


@pytest.mark.parametrize("version", range(4, 19))
def test_every_served_version_is_answered(broker: Broker, version: int) -> None:
    topic_id = broker.create_topic("t")
    produce(broker, "t", produced())
    named = topic_id if version >= 13 else NO_TOPIC_ID
    response = fetch(broker, fetch_request("t", at(0), topic_id=named), version=version)
    assert only(response).error_code == ErrorCode.NONE
    parts = encode_parts(response, version)
    assert any(isinstance(part, FileRange) for part in parts)


def test_a_fetch_from_the_middle_of_a_batch_returns_the_whole_batch(broker: Broker) -> None:
    broker.create_topic("t")
    produce(broker, "t", produced(5))
    produce(broker, "t", produced(5))
    assert offsets_of(bytes_of(only(fetch(broker, fetch_request("t", at(7)))))) == [5]


def test_at_the_end_there_is_nothing_and_beyond_it_an_error(broker: Broker) -> None:
    broker.create_topic("t")
    produce(broker, "t", produced(5))
    end = only(fetch(broker, fetch_request("t", at(5))))
    assert (end.error_code, bytes_of(end), end.high_watermark) == (ErrorCode.NONE, b"", 5)
    for offset in (6, -1):
        beyond = only(fetch(broker, fetch_request("t", at(offset))))
        assert (beyond.error_code, beyond.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_what_was_deleted_is_out_of_range(broker: Broker) -> None:
    broker.create_topic("t")
    produce(broker, "t", produced(5))
    broker.partition("t").advance_start(Offset(3))
    answer = only(fetch(broker, fetch_request("t", at(2))))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert only(fetch(broker, fetch_request("t", at(3)))).log_start_offset == 3


def test_the_first_batch_comes_even_when_it_is_larger_than_the_limit(broker: Broker) -> None:
    broker.create_topic("t")
    data = produced(value=bytes(5000))
    produce(broker, "t", data)
    answer = only(fetch(broker, fetch_request("t", at(0, max_bytes=100), max_bytes=100)))
    assert len(bytes_of(answer)) == len(data)


def test_only_the_first_partition_with_data_may_exceed_the_limit(broker: Broker) -> None:
    broker.create_topic("t", 3)
    for index in (1, 2):
        produce(broker, "t", produced(value=bytes(5000)), index=index)
    wanted = [at(0, index=index, max_bytes=100) for index in range(3)]
    response = fetch(broker, fetch_request("t", *wanted))
    sizes = [len(bytes_of(answer)) for answer in response.responses[0].partitions]
    assert sizes[0] == 0
    assert sizes[1] > 5000
    assert sizes[2] < 100  # nothing, or the cut-off beginning of a batch


def test_the_whole_reply_is_bounded(broker: Broker) -> None:
    broker.create_topic("t", 4)
    for index in range(4):
        produce(broker, "t", produced(value=bytes(1000)), index=index)
    wanted = [at(0, index=index) for index in range(4)]
    response = fetch(broker, fetch_request("t", *wanted, max_bytes=2500))
    total = sum(len(bytes_of(answer)) for answer in response.responses[0].partitions)
    assert total <= 2500


def test_the_brokers_own_bound_holds_too(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    small = Broker(tmp_path_factory.mktemp("small"), fetch_max_bytes="1024")
    small.create_topic("t")
    for _ in range(4):
        produce(small, "t", produced(value=bytes(1000)))
    answer = only(fetch(small, fetch_request("t", at(0))))
    assert len(bytes_of(answer)) <= 1200
    small.close()


def test_reading_goes_on_across_segments(broker: Broker) -> None:
    broker.create_topic("t")
    for count in (2, 3):
        produce(broker, "t", produced(count))
        broker.partition("t").log.roll()
    seen, offset = [], 0
    while offset < 5:
        received = bytes_of(only(fetch(broker, fetch_request("t", at(offset)))))
        seen += offsets_of(received)
        offset = list(batches(memoryview(received)))[-1].next_offset
    assert seen == [0, 2]


def test_unknown_topics_and_partitions_are_told(broker: Broker) -> None:
    topic_id = broker.create_topic("t")
    for request, version, code in (
        (fetch_request("nowhere", at(0)), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetch_request("t", at(0, index=9)), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetch_request("", at(0), topic_id=b"?" * 16), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (
            fetch_request("", at(0, index=9), topic_id=topic_id),
            13,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (fetch_request("__cluster_metadata", at(0)), 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        answer = only(fetch(broker, request, version=version))
        assert (answer.error_code, answer.high_watermark) == (code, -1)


def test_an_error_does_not_wait(broker: Broker) -> None:
    request = fetch_request("nowhere", at(0), wait_ms=60_000)
    response = broker.send(fetch_api.API, request, version=12)
    assert not hasattr(response, "__await__")


def test_fetchers_of_another_epoch_are_refused_and_told_the_leader(broker: Broker) -> None:
    topic_id = broker.create_topic("t", leader_epoch=5)
    request = fetch_request("", at(0, epoch=4), topic_id=topic_id)
    response = fetch(broker, request, version=16)
    answer = only(response)
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert answer.current_leader is not None
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (NODE, 5)
    assert [node.node_id for node in response.node_endpoints] == [NODE]
    newer = only(fetch(broker, fetch_request("t", at(0, epoch=6))))
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert newer.current_leader is None


def test_partitions_led_elsewhere_are_refused(broker: Broker) -> None:
    broker.create_topic("t", leader=OTHER, replicas=(OTHER,))
    answer = only(fetch(broker, fetch_request("t", at(0))))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_one_who_claims_to_be_a_follower_is_none(broker: Broker) -> None:
    broker.create_topic("t")
    request = fetch_request("t", at(0))
    request.replica_id = OTHER
    assert only(fetch(broker, request)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    request.replica_state = ReplicaState(replica_id=OTHER)


def test_a_fetcher_whose_log_diverged_is_told_where(broker: Broker) -> None:
    broker.create_topic("t", leader_epoch=2)
    produce(broker, "t", produced(3))
    wanted = FetchPartition(
        partition=0, fetch_offset=3, partition_max_bytes=1000, last_fetched_epoch=2
    )
    assert only(fetch(broker, fetch_request("t", wanted))).diverging_epoch is None
    wanted.last_fetched_epoch = 1
    answer = only(fetch(broker, fetch_request("t", wanted)))
    assert answer.diverging_epoch is not None
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, 0)


def test_committed_readers_stop_at_an_open_transaction(broker: Broker) -> None:
    broker.create_topic("t")
    produce(broker, "t", produced(2))
    batch = BatchView(produced(3, producer_id=9, epoch=0, sequence=0, transactional=True))
    batch.assign(base_offset=Offset(2), leader_epoch=LeaderEpoch(0))
    broker.partition("t").append_numbered([batch], now_ms=NOW_MS)
    committed = only(fetch(broker, fetch_request("t", at(0), isolation=1)))
    assert (committed.high_watermark, committed.last_stable_offset) == (5, 2)
    assert offsets_of(bytes_of(committed)) == [0]
    assert committed.aborted_transactions == []
    everything = only(fetch(broker, fetch_request("t", at(0))))
    assert offsets_of(bytes_of(everything)) == [0, 2]
    waiting = only(fetch(broker, fetch_request("t", at(2), isolation=1)))
    assert (bytes_of(waiting), waiting.aborted_transactions) == (b"", [])


def test_zstd_topics_need_version_ten(broker: Broker) -> None:
    broker.create_topic("t", config={"compression.type": "zstd"})
    request = fetch_request("t", at(0))
    early = only(fetch(broker, request, version=9))
    assert early.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert only(fetch(broker, request, version=10)).error_code == ErrorCode.NONE


def test_a_fetch_of_nothing_is_answered_with_nothing(broker: Broker) -> None:
    request = fetch_request("t", wait_ms=60_000)
    assert fetch(broker, request).responses == []


def test_a_refusal_names_every_partition(broker: Broker) -> None:
    request = fetch_request("t", at(0), at(0, index=1))
    refusal = fetch_api.refuse(request, ErrorCode.REQUEST_TIMED_OUT, None)
    codes = [answer.error_code for answer in refusal.responses[0].partitions]
    assert codes == [ErrorCode.REQUEST_TIMED_OUT] * 2


@pytest.mark.parametrize("limit", [0, -1, -(2**31)])
def test_a_limit_below_one_byte_still_gives_the_first_batch(broker: Broker, limit: int) -> None:
    broker.create_topic("t")
    produce(broker, "t", produced(2))
    produce(broker, "t", produced(2))
    for request in (
        fetch_request("t", at(0, max_bytes=limit)),
        fetch_request("t", at(0), max_bytes=limit),
    ):
        assert offsets_of(bytes_of(only(fetch(broker, request)))) == [0]


@pytest.mark.parametrize("isolation", [-1, 2, 9])
def test_strange_isolation_level_is_refused(broker: Broker, isolation: int) -> None:
    broker.create_topic("t")
    with pytest.raises(RequestError, match="INVALID_REQUEST"):
        fetch(broker, fetch_request("t", at(0), isolation=isolation))
