"""One query: lines -> words -> running counts, of all words or of those that are still in use."""

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.pipelines.checkpoint_state import refuse_other_state
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.streams import read_topics, write_topics
from penstock.spark.pipelines.wordcount.names import COUNTS, LINES
from penstock.spark.pipelines.wordcount.steps import counts, recent_counts, timed, words

QUERY = "wordcount.counts"


def start(spark: SparkSession, place: Place) -> list[StreamingQuery]:
    refuse_other_state(spark, place, query=QUERY)
    lines = read_topics(spark, place, LINES)
    if place.forget_after_ms is None:
        counted = counts(words(lines))
        return [write_topics(counted, place, query=QUERY, topic=COUNTS, output_mode="update")]
    recent = recent_counts(words(timed(lines), "at"), forget_after_ms=place.forget_after_ms)
    return [write_topics(recent, place, query=QUERY, topic=COUNTS)]
