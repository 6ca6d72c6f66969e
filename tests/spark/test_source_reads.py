"""What a batch reader gives of real topics: every record once, and nothing else."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import confluent_kafka
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from penstock.client.network.errors import Unreachable
from penstock.client.network.routing import ClusterView
from penstock.model.identity import TopicPartition
from penstock.spark.connection import connect, run
from penstock.spark.options import BadOption
from penstock.spark.source.batch import planned_once
from penstock.spark.source.columns import COLUMNS, HEADERS_COLUMN
from penstock.spark.source.errors import BadPosition, DataLoss
from penstock.spark.source.fetching import TaskFetcher
from penstock.spark.source.filters import Narrowed
from penstock.spark.source.offset_poller import OffsetPoller
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.positions import Offsets
from penstock.spark.source.range_progress import PlannedFetch
from penstock.spark.source.read import TaskPartition
from penstock.spark.source.tasks import TaskRanges
from penstock.wire.messages.fetch import PartitionData
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.serve import ServedNode
from rig.spark_source import batch_reader, places, rows_of

START_MS = 1_700_000_000_000
START = datetime.fromtimestamp(START_MS / 1000, UTC)


def numbered(count: int, *, partitions: int = 1) -> list[Message]:
    return [
        Message(
            value=b"value %d" % number,
            key=b"key %d" % number,
            partition=number % partitions,
            timestamp_ms=START_MS + number,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_compression_come_as_they_were_written(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str], codec: str
) -> None:
    name = topic(partitions=2)
    confluent.produce(name, numbered(500, partitions=2), codec=codec)
    rows = rows_of(batch_reader(node.bootstrap, subscribe=name))
    assert len(rows) == 500
    for row in rows:
        number = row["offset"] * 2 + row["partition"]
        assert row == {
            "key": b"key %d" % number,
            "value": b"value %d" % number,
            "topic": name,
            "partition": number % 2,
            "offset": number // 2,
            "timestamp": START + timedelta(milliseconds=number),
            "timestampType": 0,
        }


def test_headers_and_nulls_are_kept(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    some = [
        Message(value=None, key=b"k", headers=(("a", b"1"), ("a", None), ("é", b""))),
        Message(value=b"v", key=None),
    ]
    confluent.produce(name, some)
    first, second = rows_of(batch_reader(node.bootstrap, subscribe=name, includeHeaders="true"))
    assert (first["key"], first["value"]) == (b"k", None)
    assert first["headers"] == [
        {"key": "a", "value": b"1"},
        {"key": "a", "value": None},
        {"key": "é", "value": b""},
    ]
    assert (second["key"], second["value"], second["headers"]) == (None, b"v", None)


def test_a_schema_chooses_the_columns(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    confluent.produce(name, numbered(2))
    chosen = StructType([COLUMNS["offset"], COLUMNS["value"]])
    rows = rows_of(batch_reader(node.bootstrap, chosen, subscribe=name))
    assert rows == [{"offset": 0, "value": b"value 0"}, {"offset": 1, "value": b"value 1"}]
    for wrong in (
        StructField("value", StringType()),
        StructField("values", BinaryType()),
        HEADERS_COLUMN,  # without the option for them
    ):
        with pytest.raises(BadOption, match="column"):
            batch_reader(node.bootstrap, StructType([wrong]), subscribe=name)


def test_open_and_aborted_transactions_are_read_by_those_who_ask_for_them(
    node: ServedNode, topic: Callable[..., str]
) -> None:
    name = topic()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": node.bootstrap, "transactional.id": name, "batch.num.messages": 2}
    )
    producer.init_transactions()
    for end in (
        producer.abort_transaction,
        producer.commit_transaction,
        producer.abort_transaction,
    ):
        producer.begin_transaction()
        for number in range(5):
            producer.produce(name, b"%d" % number)
        assert producer.flush(120) == 0
        end()
    producer.begin_transaction()
    producer.produce(name, b"open")
    assert producer.flush(120) == 0
    committed = rows_of(batch_reader(node.bootstrap, subscribe=name))
    assert places(committed) == [(0, offset) for offset in range(6, 11)]
    everything = {"subscribe": name, "kafka.isolation.level": "read_uncommitted"}
    assert len(rows_of(batch_reader(node.bootstrap, **everything))) == 16
    producer.abort_transaction()
    # The last thing in the log is a marker now, which ends the range and is no row.
    assert len(rows_of(batch_reader(node.bootstrap, subscribe=name))) == 5


def test_parts_of_one_partition_hold_every_record_once(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    confluent.produce(name, numbered(1000), codec="lz4")
    for options in ({"minPartitions": "7"}, {"maxRecordsPerPartition": "150"}):
        reader = batch_reader(node.bootstrap, subscribe=name, **options)
        parts = reader.partitions()
        assert len(parts) == 7
        assert places(rows_of(reader, parts)) == [(0, offset) for offset in range(1000)]


def test_one_task_reads_several_partitions_each_in_its_order(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    """Also where a reply has no room for all of them, and batches are larger than a fetch."""
    name = topic(partitions=20)
    some = [
        Message(value=b"%d" % number * (50 + number % 7 * 100), partition=number % 20)
        for number in range(4000)
    ]
    confluent.produce(name, some)
    for options in ({}, {"kafka.max.partition.fetch.bytes": "2048"}):
        told = {"subscribe": name, "maxPartitions": "3", **options}
        reader = batch_reader(node.bootstrap, **told)
        parts = reader.partitions()
        assert len(parts) == 3
        read: dict[int, list[int]] = {}
        for partition, offset in places(rows_of(reader, parts)):
            read.setdefault(partition, []).append(offset)
        assert read == {one: list(range(200)) for one in range(20)}


def test_little_data_of_many_partitions_is_one_fetch_and_one_batch_for_spark(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic(partitions=100)
    confluent.produce(name, numbered(300, partitions=100))
    reader = batch_reader(node.bootstrap, subscribe=name, maxPartitions="1")
    [part] = reader.partitions()
    assert isinstance(part, TaskPartition)
    fetches, fetched = run(_fetched_alone(reader.options, part.ranges))
    assert (fetches, fetched) == (1, 100)
    [batch] = reader.read(part)
    assert batch.num_rows == 300


async def _fetched_alone(options: SourceOptions, ranges: TaskRanges) -> tuple[int, int]:
    """How many fetches it took, and of how many ranges records came."""
    fetches = ranges_fetched = 0

    class Counted(TaskFetcher):
        async def _ask(
            self, planned: PlannedFetch, view: ClusterView
        ) -> dict[TopicPartition, PartitionData]:
            nonlocal fetches
            fetches += 1
            return await super()._ask(planned, view)

    async with connect(options.connection) as cluster:
        fetcher = Counted(
            cluster,
            ranges,
            isolation=options.isolation,
            fetch_bytes_max=options.fetch_bytes_max,
            wait_ms_max=options.wait_ms_max,
        )
        while (reply := await fetcher.next()) is not None:
            ranges_fetched += len(reply)
        await fetcher.close()
    return fetches, ranges_fetched


def test_a_node_that_is_killed_and_comes_back_costs_a_task_no_record(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic(partitions=6)
    some = [Message(value=b"x" * 1000, partition=number % 6) for number in range(6000)]
    confluent.produce(name, some)
    told = {"subscribe": name, "maxPartitions": "1", "kafka.max.partition.fetch.bytes": "65536"}
    reader = batch_reader(node.bootstrap, **told)
    [part] = reader.partitions()
    batches = reader.read(part)
    rows = next(batches).to_pylist()
    node.kill()
    node.start()
    for batch in batches:
        rows += batch.to_pylist()
    assert len(rows) == 6000
    assert sorted(places(rows)) == [(one, at) for one in range(6) for at in range(1000)]


def test_a_loss_in_one_partition_leaves_the_others_of_its_task_as_they_are(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name, gone = topic(partitions=3), topic()
    for one, partitions in ((name, 3), (gone, 1)):
        confluent.produce(one, numbered(30, partitions=partitions))
    told = {"subscribe": f"{name},{gone}", "maxPartitions": "1"}
    patient = batch_reader(node.bootstrap, failOnDataLoss="false", **told)
    planned = patient.partitions()
    confluent.delete_records(name, 1, before_offset=4)
    confluent.delete_topic(gone)
    rows = rows_of(patient, planned)
    assert {row["topic"] for row in rows} == {name}
    expected = [(one, at) for one in range(3) for at in range(4 if one == 1 else 0, 10)]
    assert sorted(places(rows)) == expected
    strict = batch_reader(node.bootstrap, **told)
    with pytest.raises(DataLoss, match="offsets 0 to "):
        rows_of(strict, planned)


def test_offsets_and_times_bound_what_is_read(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    confluent.produce(name, numbered(20, partitions=2))

    def read(**options: str) -> list[tuple[int, int]]:
        return places(rows_of(batch_reader(node.bootstrap, subscribe=name, **options)))

    bounds = f'{{"{name}": {{"0": %s, "1": %s}}}}'
    assert read(startingOffsets=bounds % (8, -2), endingOffsets=bounds % (-1, 1)) == [
        (0, 8),
        (0, 9),
        (1, 0),
    ]
    late = str(START_MS + 17)
    assert read(startingTimestamp=late) == [(0, 9), (1, 8), (1, 9)]
    assert read(endingTimestamp=str(START_MS + 2)) == [(0, 0), (1, 0)]
    by_time = bounds % (START_MS + 18, START_MS + 99)
    assert read(
        startingOffsetsByTimestamp=by_time, startingOffsetsByTimestampStrategy="latest"
    ) == [(0, 9)]
    with pytest.raises(BadPosition, match="has no record at or after"):
        read(startingOffsetsByTimestamp=by_time)
    with pytest.raises(BadPosition, match="has no offset for"):
        read(startingOffsets=f'{{"{name}": {{"0": 1}}}}')


def test_what_begins_behind_its_end_is_empty(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    confluent.produce(name, numbered(20))
    place = f'{{"{name}": {{"0": %d}}}}'
    backwards = {"startingOffsets": place % 15, "endingOffsets": place % 5}
    late_first = {"startingTimestamp": str(START_MS + 15), "endingTimestamp": str(START_MS + 5)}
    for told in (backwards, late_first):
        for fail in ("true", "false"):
            reader = batch_reader(node.bootstrap, subscribe=name, failOnDataLoss=fail, **told)
            assert rows_of(reader) == []
    beyond = {"subscribe": name, "startingOffsets": place % 50}
    with pytest.raises(DataLoss, match="to be read from offset 50 and ends at 20"):
        batch_reader(node.bootstrap, **beyond).partitions()
    assert rows_of(batch_reader(node.bootstrap, failOnDataLoss="false", **beyond)) == []


def test_records_that_come_while_a_read_is_planned_are_no_loss(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    confluent.produce(name, numbered(5))

    class Busy(OffsetPoller):
        """A record comes right after each question for the ends."""

        def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
            found = super().latest(partitions)
            confluent.produce(name, [Message(value=b"late", timestamp_ms=START_MS + 99)])
            return found

    for options in ({}, {"startingTimestamp": str(START_MS + 50)}):
        told = batch_reader(node.bootstrap, subscribe=name, **options).options
        with Busy(told) as poller:
            planned = planned_once(poller, told, Narrowed())
        assert [(one.start, one.end) for one in planned] == ([] if options else [(0, 5)])
        confluent.delete_topic(name)
        confluent.create_topic(name)
        confluent.produce(name, numbered(5))


def test_topics_are_chosen_by_pattern_and_partitions_by_assignment(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    one, other = topic(partitions=2), topic()
    for name in (one, other):
        confluent.produce(name, numbered(4, partitions=1))
    pattern = f"{one}|{other}|__.*"
    rows = rows_of(batch_reader(node.bootstrap, subscribePattern=pattern))
    assert {row["topic"] for row in rows} == {one, other}
    assert len(rows) == 8
    assert rows_of(batch_reader(node.bootstrap, subscribePattern="no such topic")) == []
    assigned = f'{{"{one}": [1], "{other}": [0]}}'
    rows = rows_of(batch_reader(node.bootstrap, assign=assigned))
    assert [row["topic"] for row in rows] == [other] * 4


def test_conditions_spare_ranges_and_never_a_row(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic(partitions=3)
    confluent.produce(name, numbered(300, partitions=3))

    def ranges(*conditions: object) -> list[tuple[int, int, int]]:
        reader = batch_reader(node.bootstrap, subscribe=name)
        assert list(reader.pushFilters(list(conditions))) == list(conditions)  # type: ignore[arg-type]
        found = []
        for part in reader.partitions():
            assert isinstance(part, TaskPartition)
            for wanted in part.ranges:
                found.append((wanted.partition.partition, wanted.start, wanted.end))
        return found

    assert ranges(EqualTo(("partition",), 1)) == [(1, 0, 100)]
    assert ranges(In(("partition",), (0, 2)), LessThan(("offset",), 10)) == [(0, 0, 10), (2, 0, 10)]
    assert ranges(GreaterThan(("offset",), 97), EqualTo(("topic",), name)) == [
        (0, 98, 100),
        (1, 98, 100),
        (2, 98, 100),
    ]
    assert ranges(EqualTo(("topic",), "other")) == []
    late = START + timedelta(milliseconds=290)
    for partition, start, end in ranges(GreaterThanOrEqual(("timestamp",), late)):
        assert (end, start * 3 + partition) >= (100, 288)
        assert start >= 96


def test_records_gone_by_retention_are_told_or_passed_over(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    confluent.produce(name, numbered(100))
    reader = batch_reader(node.bootstrap, subscribe=name)
    planned = reader.partitions()
    confluent.delete_records(name, 0, before_offset=40)
    with pytest.raises(DataLoss, match=r"-0: offsets 0 to 39 are gone, its log begins at 40"):
        rows_of(reader, planned)
    patient = batch_reader(node.bootstrap, subscribe=name, failOnDataLoss="false")
    assert places(rows_of(patient, planned)) == [(0, offset) for offset in range(40, 100)]
    asked = {"subscribe": name, "startingOffsets": f'{{"{name}": {{"0": 5}}}}'}
    with pytest.raises(DataLoss, match="offsets 5 to 39 are gone"):
        batch_reader(node.bootstrap, **asked).partitions()


def test_a_topic_made_anew_is_not_taken_for_the_old_one(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic()
    confluent.produce(name, numbered(10))
    reader = batch_reader(node.bootstrap, subscribe=name)
    planned = reader.partitions()
    confluent.delete_topic(name)
    confluent.create_topic(name)
    confluent.produce(name, numbered(20))
    with pytest.raises(DataLoss, match="created again"):
        rows_of(reader, planned)


def test_what_is_not_there_is_told_in_one_line(node: ServedNode) -> None:
    with pytest.raises(BadPosition, match=r"topic nowhere does not exist \(subscribe=nowhere\)"):
        batch_reader(node.bootstrap, subscribe="nowhere").partitions()
    with pytest.raises(BadPosition, match="partition nowhere-3 does not exist"):
        batch_reader(node.bootstrap, assign='{"nowhere": [3]}').partitions()


def test_brokers_that_are_not_there_are_told_in_one_line() -> None:
    at_once = {"kafka.default.api.timeout.ms": "0"}
    with pytest.raises(Unreachable, match="no broker can be reached") as error:
        batch_reader("127.0.0.1:1", subscribe="t", **at_once).partitions()
    assert "\n" not in str(error.value)
