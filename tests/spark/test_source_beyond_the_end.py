"""A checkpoint beyond the readable end: waited for as long as the log has what was read."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.source.errors import DataLoss
from penstock.spark.source.offset_poller import Layout, OffsetPoller
from penstock.spark.source.positions import Offsets, Selection
from penstock.spark.source.read import TaskPartition
from penstock.spark.source.stream import StreamDriver, StreamReader
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.serve import ServedNode
from rig.spark_source import batch_reader, places, rows_of, stream_reader
from rig.spark_stream import store_what_is_there, stored, stream_of
from rig.transactional.confluent import ConfluentProducer

EVERYTHING = ReadAllAvailable()
STREAM = "penstock.spark.source.stream"
ASKED_ONCE = {"fetchOffset.numRetries": "0"}


@contextmanager
def reading(bootstrap: str, name: str, **options: str) -> Iterator[StreamReader]:
    reader = stream_reader(bootstrap, subscribe=name, **options)
    try:
        yield reader
    finally:
        reader.stop()


@contextmanager
def open_transaction(bootstrap: str, name: str, *values: bytes) -> Iterator[ConfluentProducer]:
    """Its records are in the topic; whoever opened it commits or aborts it."""
    producer = ConfluentProducer(bootstrap, f"transaction-{name}")
    producer.begin()
    for value in values:
        producer.send(name, value)
    try:
        yield producer
    finally:
        producer.close()


def plain(first: int, last: int) -> list[Message]:
    return [Message(value=b"plain %d" % one, partition=0) for one in range(first, last)]


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("once", [True, False])
def test_what_was_read_uncommitted_is_waited_for_and_not_read_again(
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    fail: str,
    once: bool,
) -> None:
    name = topic()
    confluent.produce(name, plain(0, 3))
    with open_transaction(node.bootstrap, name, b"a", b"b") as transaction:
        confluent.produce(name, plain(5, 7))
        checkpoint = {name: {"0": 6}}  # the last stable offset is 3, the high watermark 7
        with reading(node.bootstrap, name, failOnDataLoss=fail) as reader:
            if once:
                reader.prepareForTriggerAvailableNow()
            for _ in range(3):
                assert reader.latestOffset(checkpoint, EVERYTHING) == checkpoint
            assert reader.partitions(checkpoint, checkpoint) == []
        with reading(node.bootstrap, name, failOnDataLoss=fail) as reader:
            assert reader.latestOffset(checkpoint, EVERYTHING) == checkpoint
            transaction.commit()
            end = reader.latestOffset(checkpoint, EVERYTHING)
            assert end == {name: {"0": 8}}  # with the marker
            found = rows_of(reader, reader.partitions(checkpoint, end))
            assert places(found) == [(0, 6)]


def test_partition_that_begins_to_wait_is_logged_once(
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = topic()
    with open_transaction(node.bootstrap, name, b"a", b"b") as transaction:
        confluent.produce(name, plain(2, 4))
        with reading(node.bootstrap, name) as reader:
            for end in (4, 4, 3):
                reader.latestOffset({name: {"0": end}}, EVERYTHING)
            transaction.commit()
            reader.latestOffset({name: {"0": 4}}, EVERYTHING)
    [logged] = [one.getMessage() for one in caplog.records if one.name == STREAM]
    assert logged == (
        f"partition={name}-0 waits: it was read up to offset 4, and a transaction that is still"
        " open ends what can be read at offset 0"
    )


def test_an_offset_that_a_user_has_told_is_waited_for_too(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    with open_transaction(node.bootstrap, name, b"a", b"b", b"c") as transaction:
        told = f'{{"{name}": {{"0": 2}}}}'
        start = {name: {"0": 2}}
        assert rows_of(batch_reader(node.bootstrap, subscribe=name, startingOffsets=told)) == []
        with reading(node.bootstrap, name, startingOffsets=told) as once:
            once.prepareForTriggerAvailableNow()
            assert once.initialOffset() == start
            assert once.latestOffset(start, EVERYTHING) == start
        with reading(node.bootstrap, name, startingOffsets=told) as reader:
            assert reader.initialOffset() == start
            assert reader.latestOffset(start, EVERYTHING) == start
            transaction.commit()
            end = reader.latestOffset(start, EVERYTHING)
            assert places(rows_of(reader, reader.partitions(start, end))) == [(0, 2)]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_log_that_ends_before_the_checkpoint_is_a_loss_and_goes_on_at_its_end(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str], isolation: str
) -> None:
    """As after a topic was deleted and created again, and the query was started after that."""
    name = topic()
    confluent.produce(name, plain(0, 4))
    options = {"kafka.isolation.level": isolation, **ASKED_ONCE}
    checkpoint = {name: {"0": 5}}
    with reading(node.bootstrap, name, **options) as strict:
        with pytest.raises(DataLoss, match="read up to offset 5, and its log ends at 4") as lost:
            strict.latestOffset(checkpoint, EVERYTHING)
        assert "\n" not in str(lost.value)
    with reading(node.bootstrap, name, failOnDataLoss="false", **options) as lenient:
        end = lenient.latestOffset(checkpoint, EVERYTHING)
        assert end == {name: {"0": 4}}
        assert lenient.partitions(checkpoint, end) == []
        confluent.produce(name, plain(4, 6))
        later = lenient.latestOffset(end, EVERYTHING)
        assert places(rows_of(lenient, lenient.partitions(end, later))) == [(0, 4), (0, 5)]


def test_a_high_watermark_that_lags_for_a_moment_is_no_loss(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    confluent.produce(name, plain(0, 9))
    options = stream_reader(node.bootstrap, subscribe=name).options
    place = TopicPartition(name, 0)
    lags = [4, 4, 3]

    class Lagging(OffsetPoller):
        """As a leader that was replaced and does not know it yet would have it."""

        def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
            return {one: Offset(at - lags[0]) for one, at in super().latest(partitions).items()}

        def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Offsets:
            found = super().high_watermarks(partitions)
            behind = lags.pop() if lags else 0
            return {one: Offset(at - behind) for one, at in found.items()}

    with Lagging(options) as poller:
        start = {place: Offset(7)}
        driver = StreamDriver(options, poller)
        assert driver.next_end(start, records_max=None, patient=False) == start
        assert lags == []


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_partition_that_metadata_lack_for_a_moment_is_no_loss(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str], fail: str
) -> None:
    name = topic(partitions=2)
    confluent.produce(name, plain(0, 9))
    options = stream_reader(node.bootstrap, subscribe=name, failOnDataLoss=fail).options
    start = {TopicPartition(name, 0): Offset(7), TopicPartition(name, 1): Offset(0)}
    end = start | {TopicPartition(name, 0): Offset(9)}
    lacking: list[TopicPartition] = []

    class Forgetful(OffsetPoller):
        """As a broker that has not heard of all partitions yet would have it."""

        def layout(self, selection: Selection) -> Layout:
            found = super().layout(selection)
            without = {lacking.pop()} if lacking else set()
            there = tuple(one for one in found.partitions if one not in without)
            return replace(found, partitions=there)

    with Forgetful(options) as poller:
        driver = StreamDriver(options, poller)
        driver.next_end(end, records_max=None, patient=False)
        lacking.extend([TopicPartition(name, 0)] * 2)
        assert driver.next_end(start, records_max=None, patient=False) == end
        lacking.extend([TopicPartition(name, 0)] * 2)
        [part] = driver.parts(start, end)
        assert isinstance(part, TaskPartition)
        assert [(one.start, one.end) for one in part.ranges] == [(7, 9)]
        lacking.extend([TopicPartition(name, 0)] * 2)
        driver.fix_end()
        assert driver.next_end(start, records_max=None, patient=False) == end
        assert lacking == []


def test_a_query_goes_on_with_the_checkpoint_of_one_that_read_uncommitted(
    spark: SparkSession,
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    folder: Path,
) -> None:
    name = topic(partitions=2)

    def run_once(isolation: str) -> None:
        told = {"kafka.isolation.level": isolation, "failOnDataLoss": "false"}
        rows = stream_of(spark, node.bootstrap, name, **told)
        read = rows.selectExpr("partition", "offset", "cast(value as string) as value")
        store_what_is_there(read, folder)

    confluent.produce(name, plain(0, 3))
    with open_transaction(node.bootstrap, name, b"a", b"b") as transaction:
        run_once("read_uncommitted")
        # The first partition waits for its transaction, and the second is read meanwhile.
        confluent.produce(name, [*plain(5, 7), Message(value=b"other", partition=1)])
        run_once("read_committed")
        transaction.commit()
        run_once("read_committed")
    found = stored(spark, folder).collect()
    assert sorted((row.partition, row.offset, row.value) for row in found) == [
        (0, 0, "plain 0"),
        (0, 1, "plain 1"),
        (0, 2, "plain 2"),
        (0, 3, "a"),
        (0, 4, "b"),
        (0, 5, "plain 5"),
        (0, 6, "plain 6"),
        (1, 0, "other"),
    ]
