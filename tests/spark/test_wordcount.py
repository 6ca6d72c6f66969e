"""The word count: its steps on small frames, and the whole of it against a node."""

from collections import Counter
from itertools import islice
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.wordcount import job
from penstock.spark.pipelines.wordcount.generate import events
from penstock.spark.pipelines.wordcount.names import COUNTS, LINES
from penstock.spark.pipelines.wordcount.steps import counts, words
from rig.pipeline_input import make_topics, produce
from rig.serve import ServedNode
from rig.sink_output import committed_records


def test_words_are_what_is_between_other_signs(spark: SparkSession) -> None:
    lines = spark.createDataFrame([("Don't panic: DON'T! – 42",), ("",), (None,)], "value string")
    assert [row["word"] for row in words(lines).collect()] == ["don't", "panic", "don't", "42"]
    counted = {row["key"]: row["value"] for row in counts(words(lines)).collect()}
    assert counted == {"don't": "2", "panic": "1", "42": "1"}


def test_counts_go_on_after_a_restart_and_each_update_is_written_once(
    spark: SparkSession, node: ServedNode, folder: Path
) -> None:
    make_topics(node.bootstrap, "wordcount")
    lines = list(islice(events(1), 300))
    place = Place(bootstrap=node.bootstrap, folder=str(folder), once=True)
    expected: Counter[str] = Counter()
    updates = 0
    for part in (lines[:200], lines[200:]):
        produce(node.bootstrap, part)
        [query] = job.start(spark, place)
        query.awaitTermination()
        found = Counter(
            word
            for event in part
            for word in (event.value or b"").decode().lower().strip(".,;!?").split()
        )
        expected += found
        updates += len(found)
    records = committed_records(node.bootstrap, COUNTS)
    assert len(records) == updates, f"{LINES}: some update is missing, or there twice"
    latest = {(one.key or b"").decode(): int(one.value or b"0") for one in records}
    assert latest == expected
