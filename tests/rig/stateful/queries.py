"""The queries that are killed, by name: single ones of the pipelines, and two pipelines whole."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.pipelines.cdc import job as cdc
from penstock.spark.pipelines.clickstream import job as clickstream
from penstock.spark.pipelines.clickstream import steps as people
from penstock.spark.pipelines.commerce import names, steps
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.streams import read_topics, write_topics
from penstock.spark.pipelines.wordcount.names import LINES
from penstock.spark.pipelines.wordcount.steps import counts, recent_counts, timed, words

RECENT_WORD_COUNT = "recent-word-count"
WORD_COUNT, ORDER_VIEW, PROFILES = "word-count", "order-view", "profiles"
CLICKSTREAM, CDC = "clickstream", "cdc"
PIPELINES = {CLICKSTREAM: clickstream.start, CDC: cdc.start}


def start_query(spark: SparkSession, what: str, place: Place, *, sink: str) -> list[StreamingQuery]:
    """Those of a pipeline have its own names; a single query and its output have that of `sink`."""
    if what in PIPELINES:
        return PIPELINES[what](spark, place)
    if what == RECENT_WORD_COUNT:
        assert place.forget_after_ms is not None
        timed_words = words(timed(read_topics(spark, place, LINES)), "at")
        recent = recent_counts(timed_words, forget_after_ms=place.forget_after_ms)
        return [write_topics(recent, place, query=sink, topic=sink)]
    rows = updates(spark, what, place).select("key", "value")
    return [write_topics(rows, place, query=sink, topic=sink, output_mode="update")]


def updates(spark: SparkSession, what: str, place: Place) -> DataFrame:
    """As the jobs have them."""
    match what:
        case "word-count":
            return counts(words(read_topics(spark, place, LINES)))
        case "order-view":
            topics = (names.ORDERS, names.PAYMENTS)
            events = steps.checked(read_topics(spark, place, *topics), *topics)
            return steps.order_view(events)
        case "profiles":
            acts = people.parsed(read_topics(spark, place, clickstream.EVENTS))
            return people.as_records(people.profiles(people.sound(acts)), key="user_id")
        case _:
            raise ValueError(f"no query is called {what}")
