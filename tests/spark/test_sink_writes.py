"""Data frames into topics, by queries and by single writes."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.client.admin.transaction_listing import Wanted, list_transactions
from penstock.client.produce.partitioner import partition_of_key
from penstock.spark.sink.names import attempt_of
from rig.serve import ServedNode
from rig.sink_output import cluster_at, committed_records, none_left_open

ROWS = 300


def lines(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of the lines of files; each batch takes one file."""
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "in"))


def add_file(folder: Path, number: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    text = "".join(f"{number}-{row}\n" for row in range(ROWS))
    (folder / "in" / f"{number}.txt").write_text(text)


def write(frame: DataFrame, node: ServedNode, folder: Path, **options: str) -> StreamingQuery:
    query = (
        frame.writeStream.format("penstock")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    return query


def test_query_writes_every_row_once(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str], folder: Path
) -> None:
    name = topic(partitions=3)
    for number in range(3):
        add_file(folder, number)
    with none_left_open(node.bootstrap):
        write(lines(spark, folder), node, folder, topic=name)
        add_file(folder, 3)
        write(lines(spark, folder), node, folder, topic=name)
    found = Counter(record.value for record in committed_records(node.bootstrap, name))
    assert found == Counter(f"{n}-{row}".encode() for n in range(4) for row in range(ROWS))


def test_write_is_there_whole(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str]
) -> None:
    name = topic(partitions=3)
    frame = spark.range(ROWS).repartition(2).selectExpr("cast(id as string) as value")
    with none_left_open(node.bootstrap):
        save(frame, node, topic=name)
    found = Counter(record.value for record in committed_records(node.bootstrap, name))
    assert found == Counter(str(row).encode() for row in range(ROWS))


def test_tasks_without_rows_take_no_transactional_id(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str], folder: Path
) -> None:
    name = topic()
    (folder / "in").mkdir()
    (folder / "in" / "0.txt").write_text("one\n")
    rows = spark.createDataFrame([("one",)], "value string").repartition(8, "value")
    save(rows, node, topic=name, sinkId="few-rows-written")
    query = lines(spark, folder).repartition(8, "value")
    write(query, node, folder, topic=name, sinkId="few-rows-queried")

    async def taken() -> list[str]:
        async with cluster_at(node.bootstrap) as cluster:
            listed = await list_transactions(cluster, Wanted())
        attempts = [attempt_of(one.transactional_id) for one in listed]
        return sorted(one.sink for one in attempts if one and one.sink.startswith("few-rows"))

    assert asyncio.run(taken()) == ["few-rows-queried", "few-rows-written"]
    values = [record.value for record in committed_records(node.bootstrap, name)]
    assert values == [b"one", b"one"]


def test_write_of_a_query_is_skipped_when_it_is_decided(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str]
) -> None:
    name = topic()
    frame = spark.range(ROWS).selectExpr("cast(id as string) as value")
    for batch_id, run_id in [(0, "first"), (1, "first"), (1, "second"), (3, "second")]:
        identity = {"sinkId": name, "queryId": "query", "runId": run_id, "batchId": str(batch_id)}
        save(frame, node, topic=name, **identity)
    assert len(committed_records(node.bootstrap, name)) == 3 * ROWS
    identity = {"sinkId": name, "queryId": "query", "runId": "second", "batchId": "3"}
    with pytest.raises(Exception, match="batch 3 has been written by this run already"):
        save(frame, node, topic="another", **identity)


def save(frame: DataFrame, node: ServedNode, **options: str) -> None:
    writer = frame.write.format("penstock").mode("append")
    writer.option("kafka.bootstrap.servers", node.bootstrap).options(**options).save()


def test_topics_partitions_headers_and_times_are_the_columns(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str]
) -> None:
    good, bad = topic(partitions=2), topic(partitions=3)
    frame = spark.sql(
        f"""select id, if(id % 2 = 0, '{good}', '{bad}') as topic, cast(id as string) as key,
            if(id = 3, null, 'row') as value, if(id = 2, 1, null) as partition,
            if(id = 5, array(named_struct('key', 'why', 'value', cast('odd' as binary))), null)
            as headers, timestamp_millis(1700000000000 + id) as timestamp from range(6)"""
    )
    save(frame, node)
    found = {
        int(record.key or b""): record
        for name in (good, bad)
        for record in committed_records(node.bootstrap, name)
    }
    assert {number: record.topic for number, record in found.items()} == {
        number: bad if number % 2 else good for number in range(6)
    }
    assert found[2].partition == 1
    assert found[4].partition == partition_of_key(b"4", 2)
    assert (found[3].value, found[1].value) == (None, b"row")
    assert [found[5].headers, found[4].headers] == [(("why", b"odd"),), ()]
    assert [found[n].timestamp_ms for n in (0, 5)] == [1700000000000, 1700000000005]


def test_columns_that_are_not_written_do_not_make_batches_smaller(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str]
) -> None:
    """Rows without a key fill a batch of one partition: 256 KiB, and these values have 400 B."""
    name = topic(partitions=3)
    rows = spark.range(40, numPartitions=1)
    frame = rows.selectExpr("repeat('x', 20000) as picture", "repeat('v', 10) as value", "id")
    save(frame, node, topic=name)
    found = committed_records(node.bootstrap, name)
    assert len(found) == 40
    assert len({record.partition for record in found}) == 1


def test_rows_are_there_at_least_once_when_that_is_enough(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str]
) -> None:
    name = topic(partitions=3)
    frame = spark.range(ROWS).selectExpr("cast(id as string) as value")
    more = {"delivery": "at_least_once", "kafka.compression.type": "zstd"}
    save(frame, node, topic=name, **more)
    found = Counter(record.value for record in committed_records(node.bootstrap, name))
    assert found == Counter(str(row).encode() for row in range(ROWS))


def test_failed_write_leaves_nothing_and_says_why(
    spark: SparkSession, node: ServedNode, topic: Callable[..., str]
) -> None:
    name = topic()
    frame = spark.range(4).repartition(2).selectExpr("raise_error('wrong') as value")
    good = spark.range(4).selectExpr("'row' as value")
    with none_left_open(node.bootstrap), pytest.raises(Exception, match="wrong"):
        save(good.union(frame), node, topic=name)
    assert committed_records(node.bootstrap, name) == []
    with pytest.raises(Exception, match="topic nowhere does not exist"):
        save(good, node, topic="nowhere")
    unreachable = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "0"}
    with pytest.raises(Exception, match="no broker can be reached"):
        save(good, node, topic=name, **unreachable)
