"""One query: lines -> words -> running counts."""

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.streams import read_topics, write_topics
from penstock.spark.pipelines.wordcount.names import COUNTS, LINES
from penstock.spark.pipelines.wordcount.steps import counts, words

QUERY = "wordcount.counts"


def start(spark: SparkSession, place: Place) -> list[StreamingQuery]:
    counted = counts(words(read_topics(spark, place, LINES)))
    return [write_topics(counted, place, query=QUERY, topic=COUNTS, output_mode="update")]
