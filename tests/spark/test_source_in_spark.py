"""What queries and frames of Spark get from the source: each record once, by few tasks, the columns
that they name.
"""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from rig.clients.confluent import ConfluentClient
from rig.serve import ServedNode
from rig.spark_source import numbered
from rig.spark_stream import store_what_is_there, stored, stream_of


def test_a_query_reads_each_record_once_over_restarts(
    spark: SparkSession,
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    folder: Path,
) -> None:
    name = topic(partitions=2)

    def run_once() -> int:
        rows = stream_of(spark, node.bootstrap, name, maxBytesPerTrigger="500b")
        read = rows.selectExpr("partition", "offset", "cast(value as string) as value")
        return len(store_what_is_there(read, folder).recentProgress)

    confluent.produce(name, numbered(40, 0) + numbered(40, 1))
    assert run_once() > 1  # batches
    confluent.produce(name, numbered(20, 1, first=40))
    run_once()
    found = stored(spark, folder).collect()
    assert len(found) == 100
    assert {(row.partition, row.offset, row.value) for row in found} == {
        (partition, offset, str(offset))
        for partition, count in ((0, 40), (1, 60))
        for offset in range(count)
    }


def test_a_query_reads_each_record_of_two_hundred_small_partitions_once_by_few_tasks(
    spark: SparkSession,
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    folder: Path,
) -> None:
    name = topic(partitions=200)

    def run_once() -> None:
        rows = stream_of(spark, node.bootstrap, name)
        read = rows.selectExpr("partition", "offset", "value", "spark_partition_id() as task")
        store_what_is_there(read, folder)

    confluent.produce(name, [one for place in range(200) for one in numbered(3, place)])
    run_once()
    confluent.produce(name, [one for place in range(200) for one in numbered(2, place, first=3)])
    run_once()
    found = stored(spark, folder).collect()
    assert sorted((row.partition, row.offset, row.value) for row in found) == [
        (place, offset, b"%d" % offset) for place in range(200) for offset in range(5)
    ]
    assert spark.sparkContext.defaultParallelism == 2
    assert {row.task for row in found} == set(range(4))


def test_a_query_has_the_columns_that_its_schema_names_and_no_others(
    spark: SparkSession,
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    folder: Path,
) -> None:
    name = topic()
    confluent.produce(name, numbered(3, 0))
    rows = stream_of(spark, node.bootstrap, name, schema="value binary, offset long")
    assert rows.schema.simpleString() == "struct<value:binary,offset:bigint>"
    store_what_is_there(rows, folder)
    found = stored(spark, folder)
    assert found.columns == ["value", "offset"]
    assert sorted(map(tuple, found.collect())) == [(b"0", 0), (b"1", 1), (b"2", 2)]


def test_partitions_of_a_frame_share_two_tasks_a_core(
    spark: SparkSession, node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    """Also in the processes that plan it, which know nothing of the session."""
    name = topic(partitions=30)
    for partition in range(30):
        confluent.produce(name, numbered(5, partition))
    reader = spark.read.format("penstock").options(subscribe=name)
    frame = reader.option("kafka.bootstrap.servers", node.bootstrap).load()
    assert spark.sparkContext.defaultParallelism == 2
    assert frame.rdd.getNumPartitions() == 4
    counts = frame.groupBy("partition").count().collect()
    assert sorted(map(tuple, counts)) == [(partition, 5) for partition in range(30)]


def test_a_frame_has_the_columns_of_sparks_own_source_and_obeys_conditions(
    spark: SparkSession, node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    name = topic(partitions=3)
    confluent.produce(name, [one for place in range(3) for one in numbered(100, place)])
    reader = (
        spark.read.format("penstock")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("subscribe", name)
    )
    frame = reader.option("includeHeaders", "true").load()
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    chosen = frame.where("partition = 1 and offset >= 95 and timestamp > '2020-01-01'")
    assert chosen.rdd.getNumPartitions() == 1
    assert [(row.offset, row.value) for row in chosen.collect()] == [
        (offset, b"%d" % offset) for offset in range(95, 100)
    ]
    few = reader.schema("offset long, partition int").load()
    assert {(row.partition, row.offset) for row in few.collect()} == {
        (place, offset) for place in range(3) for offset in range(100)
    }
