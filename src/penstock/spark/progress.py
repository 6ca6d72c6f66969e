"""`offsets_behind()`: how far a query is behind the ends of what it reads, by its own progress.

Spark takes metrics of a source only from sources written for the JVM. From one in Python it takes
offsets: those that a batch ends with, and the latest ones. Both are in the progress of the batch.
"""

import json

from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

from penstock.model.identity import TopicPartition
from penstock.spark.source.errors import ForeignCheckpoint
from penstock.spark.source.positions import Offsets, from_json


def offsets_behind(progress: StreamingQueryProgress) -> dict[TopicPartition, int]:
    """For each partition, how many of the offsets that were readable when a batch was planned are
    left after it.

    Of two sources of a partition the slower counts; sources of other formats have nothing in it,
    but for Spark's own Kafka source, whose offsets look the same.
    """
    found: dict[TopicPartition, int] = {}
    for source in progress.sources:
        for partition, behind in _of_source(source).items():
            found[partition] = max(behind, found.get(partition, 0))
    return found


def _of_source(source: SourceProgress) -> dict[TopicPartition, int]:
    latest, end = _offsets(source.latestOffset), _offsets(source.endOffset)
    return {one: max(0, latest[one] - end.get(one, 0)) for one in latest}


def _offsets(told: str | None) -> Offsets:
    """Nothing for an offset that Spark has not asked for, or of another format."""
    try:
        return from_json(json.loads(told or "null"))
    except (ValueError, ForeignCheckpoint):
        return {}
