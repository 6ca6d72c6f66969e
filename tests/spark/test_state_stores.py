"""The state of queries lies in RocksDB, unless a query began with another state store."""

import json
from itertools import islice
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.wordcount import job
from penstock.spark.pipelines.wordcount.generate import events
from penstock.spark.pipelines.wordcount.names import COUNTS
from rig.pipeline_input import make_topics, produce
from rig.serve import ServedNode
from rig.sink_output import committed_records

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PACKAGE = "org.apache.spark.sql.execution.streaming.state"
IN_HEAP = f"{PACKAGE}.HDFSBackedStateStoreProvider"


def count_words(spark: SparkSession, place: Place) -> tuple[str, bool]:
    """The state store that the checkpoint names after a run, and whether RocksDB worked in it."""
    [query] = job.start(spark, place)
    query.awaitTermination()
    [operator] = json.loads(query.recentProgress[-1].json)["stateOperators"]
    has_worked = any(name.startswith("rocksdb") for name in operator["customMetrics"])
    offsets = Path(place.checkpoint(job.QUERY), "offsets")
    newest = max(
        (one for one in offsets.iterdir() if one.name.isdecimal()), key=lambda o: int(o.name)
    )
    [_, metadata, *_] = newest.read_text("utf-8").splitlines()
    return json.loads(metadata)["conf"][PROVIDER], has_worked


def test_state_lies_in_rocksdb(spark: SparkSession, node: ServedNode, folder: Path) -> None:
    make_topics(node.bootstrap, "wordcount")
    produce(node.bootstrap, islice(events(1), 20))
    place = Place(bootstrap=node.bootstrap, folder=str(folder), once=True)
    assert count_words(spark, place) == (f"{PACKAGE}.RocksDBStateStoreProvider", True)


def test_a_query_keeps_the_state_store_that_it_began_with(
    spark: SparkSession, node: ServedNode, folder: Path
) -> None:
    make_topics(node.bootstrap, "wordcount")
    lines = list(islice(events(1), 40))
    place = Place(bootstrap=node.bootstrap, folder=str(folder), once=True)
    default = spark.conf.get(PROVIDER)
    assert default is not None
    spark.conf.set(PROVIDER, IN_HEAP)
    try:
        produce(node.bootstrap, lines[:20])
        assert count_words(spark, place) == (IN_HEAP, False)
    finally:
        spark.conf.set(PROVIDER, default)
    produce(node.bootstrap, lines[20:])
    assert count_words(spark, place) == (IN_HEAP, False)
    found = {one.key: int(one.value or b"") for one in committed_records(node.bootstrap, COUNTS)}
    words = [
        word for event in lines for word in (event.value or b"").lower().strip(b".,;!?").split()
    ]
    assert found == {word: words.count(word) for word in words}
