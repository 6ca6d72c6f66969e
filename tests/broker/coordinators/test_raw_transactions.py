"""Transactions at the level of requests: what a partition takes, and what comes too late for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from rig.raw_producer import Pipeline, RawProducer, latest, marker_request, open_offsets
from rig.running_node import running_node

OK = ErrorCode.NONE
REFUSED = -1  # the base offset of what was not written
OFFSETS_TOPIC = "__consumer_offsets"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data: Path = tmp_path_factory.mktemp("node")
    settings = {"transaction_two_phase_commit_enable": "true"}
    with running_node(data, group_initial_rebalance_delay_ms="0", **settings) as node:
        yield node.bootstrap


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """A topic of three partitions, of the test's own."""
    name: str = request.node.name.replace("[", "-").replace("]", "")[-80:]
    pipeline = Pipeline(bootstrap)
    wanted = CreatableTopic(name=name, num_partitions=3, replication_factor=1)
    [created] = pipeline.ask(CreateTopicsRequest(topics=[wanted]), version=7).topics
    assert created.error_code == OK
    pipeline.close()
    return name


@pytest.fixture
def producer(bootstrap: str, topic: str) -> Iterator[RawProducer]:
    producer = RawProducer(bootstrap, topic)
    producer.init()
    yield producer
    producer.pipeline.close()


@pytest.fixture
def other(bootstrap: str) -> Iterator[Pipeline]:
    pipeline = Pipeline(bootstrap)
    yield pipeline
    pipeline.close()


def test_a_produce_of_generation_two_adds_its_partitions(producer: RawProducer, topic: str) -> None:
    assert producer.produce(topic, 0, 2) == [(OK, 0), (OK, 0)]
    assert producer.produce(topic, 2, sequence=2) == [(OK, 2)]
    assert producer.end() is OK
    for index, end in ((0, 3), (1, 0), (2, 5)):
        assert latest(producer.pipeline, topic, committed=True, index=index) == end


@pytest.mark.parametrize(
    ("version", "code"),
    [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_produce_of_generation_one_is_refused_where_nothing_was_added(
    producer: RawProducer, topic: str, version: int, code: ErrorCode
) -> None:
    assert producer.add(topic, 1) is OK
    assert producer.produce(topic, 0, 1, version=version) == [(code, REFUSED), (OK, 0)]
    assert producer.end(version=3) is OK
    assert latest(producer.pipeline, topic, committed=False) == 0
    assert latest(producer.pipeline, topic, committed=True, index=1) == 3


def test_a_partition_that_is_not_there_does_not_hold_up_the_others(
    producer: RawProducer, topic: str
) -> None:
    assert producer.produce(topic, 0, 7, 1) == [
        (OK, 0),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, REFUSED),
        (OK, 0),
    ]
    assert producer.end() is OK
    assert latest(producer.pipeline, topic, committed=True, index=1) == 3


def test_a_batch_of_a_transaction_that_has_ended_is_refused(
    producer: RawProducer, topic: str
) -> None:
    before = producer.epoch
    assert producer.produce(topic) == [(OK, 0)]
    assert producer.end() is OK
    assert producer.epoch == before + 1
    for sequence in (0, 2):
        late = producer.produce(topic, epoch=before, sequence=sequence)
        assert late == [(ErrorCode.INVALID_PRODUCER_EPOCH, REFUSED)]
    elsewhere = producer.produce(topic, 1, epoch=before)
    assert elsewhere == [(ErrorCode.INVALID_PRODUCER_EPOCH, REFUSED)]
    assert latest(producer.pipeline, topic, committed=True) == 3
    assert latest(producer.pipeline, topic, committed=False, index=1) == 0


@pytest.mark.parametrize("committed", [True, False])
def test_a_batch_of_a_transaction_of_generation_one_that_has_ended_is_refused(
    producer: RawProducer, topic: str, committed: bool
) -> None:
    producer.add(topic, 0)
    assert producer.produce(topic, version=9) == [(OK, 0)]
    assert producer.end(committed=committed, version=3) is OK
    late = producer.produce(topic, sequence=2, version=9)
    assert late == [(ErrorCode.INVALID_TXN_STATE, REFUSED)]
    assert open_offsets(producer.pipeline, topic) == {}
    assert latest(producer.pipeline, topic, committed=True) == 3


def test_a_retry_of_the_first_batch_is_acked_as_it_was(producer: RawProducer, topic: str) -> None:
    for _ in range(3):
        assert producer.produce(topic) == [(OK, 0)]
    assert producer.produce(topic, sequence=2) == [(OK, 2)]
    assert producer.produce(topic) == [(OK, 0)]
    assert producer.end() is OK
    assert latest(producer.pipeline, topic, committed=True) == 5


def test_a_transaction_written_in_one_go_keeps_its_order(producer: RawProducer, topic: str) -> None:
    for number in range(20):
        request = producer.produce_request(topic, number % 2, sequence=number // 2 * 2)
        producer.pipeline.send(request, version=12)
        if number == 0:
            producer.pipeline.send(request, version=12)  # the very first one, twice
    answers = [producer.produced() for _ in range(21)]
    assert answers[:2] == [[(OK, 0)], [(OK, 0)]]
    assert answers[2:] == [[(OK, number // 2 * 2)] for number in range(1, 20)]
    assert producer.end() is OK
    assert latest(producer.pipeline, topic, committed=True) == 21


def test_a_gap_at_the_beginning_of_a_transaction_is_refused(
    producer: RawProducer, topic: str
) -> None:
    gap = [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, REFUSED)]
    assert producer.produce(topic, sequence=2) == gap
    assert producer.produce(topic) == [(OK, 0)]
    producer.end()
    assert producer.produce(topic, sequence=2) == gap
    assert producer.produce(topic) == [(OK, 3)]


def test_an_open_transaction_is_told_with_its_start(
    producer: RawProducer, topic: str, other: Pipeline
) -> None:
    producer.produce(topic)
    producer.end()
    producer.produce(topic, 0, 1)
    assert open_offsets(other, topic) == {producer.producer_id: 3}
    assert open_offsets(other, topic, 1) == {producer.producer_id: 0}
    assert open_offsets(other, topic, 2) == {}
    producer.end(committed=False)
    assert open_offsets(other, topic) == {}


def written(pipeline: Pipeline, *marker: object, version: int = 2, **more: object) -> list[object]:
    """The errors that a marker met, by partition."""
    request = marker_request(*marker, **more)  # type: ignore[arg-type]  # passed on
    [told] = pipeline.ask(request, version=version).markers
    return [
        ErrorCode(partition.error_code) for topic in told.topics for partition in topic.partitions
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_ends_what_hangs_in_a_partition(
    producer: RawProducer, topic: str, other: Pipeline, version: int
) -> None:
    producer.produce(topic, 0, 1)
    hanging = (producer.producer_id, producer.epoch)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert written(other, *hanging, (topic, [0, 9]), ("no-such", [0]), version=version) == [
        OK,
        unknown,
        unknown,
    ]
    assert open_offsets(other, topic) == {}
    assert latest(other, topic, committed=True) == 3
    assert latest(other, topic, committed=True, index=1) == 0
    # Once more ends nothing, and is borne: its sender may not have heard of the first.
    assert written(other, *hanging, (topic, [0]), version=version) == [OK]
    assert latest(other, topic, committed=True) == 4


def test_markers_of_old_epochs_are_refused(
    producer: RawProducer, topic: str, other: Pipeline
) -> None:
    producer.produce(topic)
    producer.end()
    producer.produce(topic)
    late = ErrorCode.INVALID_PRODUCER_EPOCH
    assert written(other, producer.producer_id, producer.epoch - 1, (topic, [0])) == [late]
    same = (producer.producer_id, producer.epoch, (topic, [0]))
    assert written(other, *same, transaction_version=2) == [late]
    assert open_offsets(other, topic) == {producer.producer_id: 3}
    newer = (producer.producer_id, producer.epoch + 1, (topic, [0]))
    assert written(other, *newer, coordinator_epoch=7) == [OK]
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert written(other, *newer, coordinator_epoch=6) == [fenced]
    assert latest(other, topic, committed=True) == 6


def test_a_marker_to_the_partition_of_a_groups_offsets_ends_what_is_pending(
    producer: RawProducer, topic: str, other: Pipeline
) -> None:
    index = producer.commit_offsets(f"group-of-{topic}", topic, offset=7)
    hanging = (producer.producer_id, producer.epoch)
    assert open_offsets(other, OFFSETS_TOPIC, index).keys() == {producer.producer_id}
    assert producer.fetch_offset(f"group-of-{topic}", topic) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert written(other, *hanging, (OFFSETS_TOPIC, [index]), committed=True) == [OK]
    assert producer.fetch_offset(f"group-of-{topic}", topic) == 7
    assert open_offsets(other, OFFSETS_TOPIC, index) == {}
    assert written(other, *hanging, ("__transaction_state", [0])) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]


def test_whoever_wrote_what_another_client_took_over_writes_nothing_more(
    producer: RawProducer, topic: str, other: Pipeline
) -> None:
    assert producer.produce(topic, 0) == [(OK, 0)]
    producer.commit_offsets("g", topic, offset=1)
    take_over = InitProducerIdRequest(
        transactional_id=topic, transaction_timeout_ms=10_000, keep_prepared_txn=True
    )
    taken = other.ask(take_over, version=6)
    assert (taken.error_code, taken.ongoing_txn_producer_id) == (OK, producer.producer_id)
    assert producer.produce(topic, 0, sequence=2) == [(ErrorCode.INVALID_PRODUCER_EPOCH, REFUSED)]
    with pytest.raises(AssertionError, match=f"error_code={ErrorCode.INVALID_PRODUCER_EPOCH:d}"):
        producer.commit_offsets("g", topic, offset=2)
    producer.producer_id, producer.epoch = taken.producer_id, taken.producer_epoch
    assert producer.end() is OK
    assert latest(producer.pipeline, topic, committed=True) == 3
    assert producer.fetch_offset("g", topic) == 1
