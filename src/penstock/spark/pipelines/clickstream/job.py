"""Five queries on one topic. What they mean is in `steps.py` and `fraud.py`."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.dead_letter import letters
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
    events = steps.parsed(read_topics(spark, place, EVENTS, includeHeaders="true"))
    sound = steps.sound(events)
    sessions = steps.as_records(steps.sessions(sound), key="user_id")
    profiles = steps.as_records(steps.profiles(sound), key="user_id")
    alerts = steps.as_records(fraud.alerts(steps.signals(sound)), key="subject")
    dead = letters(events, dead_letters=DEAD_LETTERS)
    return [
        write_topics(sessions, place, query=SESSIONS, topic=SESSIONS),
        write_topics(profiles, place, query=PROFILES, topic=PROFILES, output_mode="update"),
        write_topics(alerts, place, query=ALERTS, topic=ALERTS),
        write_topics(dead, place, query=DEAD_LETTERS),
        write_audit(steps.audit_rows(events), place),
    ]


def write_audit(rows: DataFrame, place: Place) -> StreamingQuery:
    """Every event into a table whose rows nobody can change any more."""
    table = place.table(AUDIT)

    def into(batch: DataFrame, batch_id: int) -> None:
        delta.write(batch, batch_id, table=table, app=AUDIT, append_only=True)

    return write_batches(rows, place, query=AUDIT, into=into)
