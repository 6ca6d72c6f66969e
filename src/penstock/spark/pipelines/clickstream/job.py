"""Four queries on one topic. What they mean is in `steps.py` and `fraud.py`.

What is wrong with events, fraud or form, comes from one query: the alerts of a batch and its dead
letters are one transaction.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.dead_letter import letters
from penstock.spark.pipelines.checkpoint_state import refuse_other_state
from penstock.spark.pipelines.clickstream import fraud, steps
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.streams import read_topics, write_batches, write_topics
from penstock.spark.tables import delta

EVENTS = "clickstream.events"
SESSIONS = "clickstream.sessions"
PROFILES = "clickstream.profiles"
ALERTS = "clickstream.alerts"
DEAD_LETTERS = "clickstream.dead-letters"
AUDIT = "clickstream.audit"  # a Delta table, and the query that fills it


def start(spark: SparkSession, place: Place) -> list[StreamingQuery]:
    refuse_other_state(spark, place, query=PROFILES)
    records = read_topics(spark, place, EVENTS, includeHeaders="true")
    events = steps.parsed(records, event_time=place.event_time)
    sound = steps.sound(events)
    bounds = place.event_time
    sessions = steps.as_records(steps.sessions(sound, event_time=bounds), key="user_id")
    frauds = fraud.alerts(steps.signals(sound), event_time=bounds)
    alerts = steps.as_records(frauds, key="subject")
    bad = letters(steps.refused(events), dead_letters=DEAD_LETTERS, counted=F.col(steps.COUNTED))
    wrong = alerts.withColumn("topic", F.lit(ALERTS)).unionByName(bad, allowMissingColumns=True)
    return [
        write_topics(sessions, place, query=SESSIONS, topic=SESSIONS),
        write_profiles(sound, place),
        write_topics(wrong, place, query=ALERTS),
        write_audit(steps.audit_rows(events), place),
    ]


def write_profiles(events: DataFrame, place: Place) -> StreamingQuery:
    """Of all users, or of those that have been seen lately."""
    if place.forget_after_ms is None:
        profiles = steps.as_records(steps.profiles(events), key="user_id")
        return write_topics(profiles, place, query=PROFILES, topic=PROFILES, output_mode="update")
    recent = steps.recent_profiles(events, forget_after_ms=place.forget_after_ms)
    return write_topics(
        steps.as_latest(recent, key="user_id"), place, query=PROFILES, topic=PROFILES
    )


def write_audit(rows: DataFrame, place: Place) -> StreamingQuery:
    """Every event into a table whose rows nobody can change any more."""
    table = place.table(AUDIT)

    def into(batch: DataFrame, batch_id: int) -> None:
        delta.write(batch, batch_id, table=table, app=AUDIT, append_only=True)

    return write_batches(rows, place, query=AUDIT, into=into)
