"""How far a query has come, by its checkpoint: the one witness that outlives the query.

    offsets/7   v1, a line about the batch, and a line for each source: {"topic": {"0": 12}}
    commits/7   batch 7 is written, and so are all before it

A query that was stopped and one that is done look the same from outside, and a query with nothing
left to do tells of no progress at all. Read by Spark, wherever the checkpoint lies.
"""

import json

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset


def reached(spark: SparkSession, checkpoint: str) -> dict[TopicPartition, Offset]:
    """Up to where what the query has read is written; nothing for a query that is new."""
    try:
        commits = spark.read.text(f"{checkpoint}/commits/*").select(F.input_file_name()).distinct()
        batches = [int(path.rpartition("/")[2]) for (path,) in commits.collect()]
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return {}
        raise
    if not batches:
        return {}  # it was ended before its first commit had a name
    offsets = spark.read.text(f"{checkpoint}/offsets/{max(batches)}", wholetext=True)
    [(text,)] = offsets.collect()
    return parse_offsets(text)


def parse_offsets(text: str) -> dict[TopicPartition, Offset]:
    """Of a batch with one source."""
    _, _, source = text.splitlines()
    return {
        TopicPartition(topic, int(index)): Offset(offset)
        for topic, partitions in json.loads(source).items()
        for index, offset in partitions.items()
    }
