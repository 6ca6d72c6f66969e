"""Events of people into sessions, profiles, signs of fraud, and rows of the audit log.

`parsed` comes first; everything after it but the audit log works on `sound` events alone. The
others have a `reason`, and become dead letters. So do those that are `late`, which profiles count
and sessions and alerts do not: `refused` has both.
"""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from penstock.spark.pipelines.clickstream import rules
from penstock.spark.pipelines.clickstream.profile import MEMORY, Profile, profile_with
from penstock.spark.pipelines.event_time import (
    ahead_fault,
    behind_fault,
    late_fault,
    record_fault,
    replay_fault,
)
from penstock.spark.pipelines.event_time_bounds import DEFAULT_BOUNDS, EventTimeBounds
from penstock.spark.pipelines.forgetting import VIEW, Fields, View, view_of_recent
from penstock.spark.schemas import BriefJson

FAULT = "_fault"  # of the JSON
COUNTED = "counted"
KINDS = ("page_view", "click", "login", "purchase")
EVENT = """
    event_id string NOT NULL, user_id string NOT NULL, kind string NOT NULL,
    at_ms bigint NOT NULL, device string NOT NULL, country string NOT NULL,
    page string, category string, ok boolean, card string, amount_cents bigint
"""  # `ok` of a login, `card` and `amount_cents` of a purchase

SESSION_GAP = "30 minutes"
DAY_MS = 86_400_000


def parsed(records: DataFrame, *, event_time: EventTimeBounds = DEFAULT_BOUNDS) -> DataFrame:
    """Records of the topic, each with the fields of its event; `reason` where it is none, and
    `late` where it is one that comes too late for sessions and alerts.
    """
    event, text = BriefJson(EVENT), F.col("value").cast("string")
    return (
        records.withColumn("raw", event.raw(text))
        .withColumns({"event": event.value(F.col("raw")), FAULT: event.fault(text, F.col("raw"))})
        .select(*records.columns, "event.*", FAULT)
        .withColumn(
            "reason",
            F.coalesce(F.col(FAULT), _reason(), _time_reason(event_time), replay_fault(records)),
        )
        # Not of every number: one that Spark has no timestamp for would end the query.
        .withColumn("at", F.when(F.col("reason").isNull(), F.timestamp_millis("at_ms")))
        .withColumn(
            "late",
            F.when(
                F.col("reason").isNull(),
                late_fault(records, "at_ms", F.col("at_ms"), rules.LATENESS),
            ),
        )
        .drop(FAULT)
    )


def _reason() -> Column:
    kind = F.col("kind")
    no_payment = F.col("card").isNull() | F.col("amount_cents").isNull()
    return (
        F.when(~kind.isin(*KINDS), "kind is unknown")
        .when((kind == "login") & F.col("ok").isNull(), "a login without ok")
        .when((kind == "purchase") & no_payment, "a purchase without card or amount")
    )


def _time_reason(bounds: EventTimeBounds) -> Column:
    at_ms = F.col("at_ms")
    return F.coalesce(
        record_fault(), ahead_fault("at_ms", at_ms, bounds), behind_fault("at_ms", at_ms, bounds)
    )


def sound(events: DataFrame) -> DataFrame:
    return events.where("reason IS NULL")


def refused(events: DataFrame) -> DataFrame:
    """What is to be a dead letter, with its `reason`; some of it is `counted` by profiles."""
    return events.withColumn(COUNTED, F.col("late").isNotNull()).withColumn(
        "reason", F.coalesce("reason", "late")
    )


def watermark_delay(bounds: EventTimeBounds) -> str:
    return f"{rules.LATENESS.watermark_ms(bounds)} milliseconds"


def sessions(events: DataFrame, *, event_time: EventTimeBounds = DEFAULT_BOUNDS) -> DataFrame:
    """A user's visits, each once: when it is sure that nothing of it is still to come.

    More than half an hour without an event ends a visit.
    """
    purchases = _only("purchase", F.col("amount_cents"))
    return (
        events.where("late IS NULL")
        .withWatermark("at", watermark_delay(event_time))
        .groupBy("user_id", F.session_window("at", SESSION_GAP))
        .agg(
            F.min("at_ms").alias("started_at_ms"),
            F.max("at_ms").alias("ended_at_ms"),
            F.count("*").alias("events"),
            F.count(_only("page_view", F.lit(1))).alias("pages"),
            F.count(purchases).alias("purchases"),
            F.coalesce(F.sum(purchases), F.lit(0)).alias("revenue_cents"),
            F.min_by("page", _seen("page")).alias("entry_page"),
            F.max_by("page", _seen("page")).alias("exit_page"),
        )
        .drop("session_window")
    )


def profiles(events: DataFrame) -> DataFrame:
    """What is known of each user: the latest row of a user replaces the ones before.

    Every part is a sum, a count or an extreme, so it does not matter in which order events come.
    """
    purchases = _only("purchase", F.col("amount_cents"))
    return events.groupBy("user_id").agg(
        F.min("at_ms").alias("first_seen_at_ms"),
        F.max("at_ms").alias("last_seen_at_ms"),
        F.count("*").alias("events"),
        F.count(purchases).alias("purchases"),
        F.coalesce(F.sum(purchases), F.lit(0)).alias("spent_cents"),
        F.mode("category", True).alias("favourite_category"),
        F.mode("device", True).alias("favourite_device"),
        F.max_by("page", _seen("page")).alias("last_page"),
    )


def recent_profiles(events: DataFrame, *, forget_after_ms: int) -> DataFrame:
    """As `profiles`, in a column `view`. A user without an event for so long is forgotten: the view
    is null once, and begins anew when the user comes back.
    """
    parts = events.select("user_id", "at", "at_ms", "event_id", "kind", "amount_cents", "category",
                          "device", "page")  # fmt: skip
    return view_of_recent(parts, PROFILE, key="user_id", at="at", forget_after_ms=forget_after_ms)


def _profile_with(memory: Fields | None, events: Iterable[Row]) -> Fields:
    known = None if memory is None else Profile(*memory)
    return profile_with(known, (event.asDict() for event in events))


def _shown(memory: Fields) -> Row:
    profile = Profile(*memory)
    return Row(
        first_seen_at_ms=profile.first_seen_at_ms,
        last_seen_at_ms=profile.last_seen_at_ms,
        events=profile.events,
        purchases=profile.purchases,
        spent_cents=profile.spent_cents,
        favourite_category=profile.favourite_category,
        favourite_device=profile.favourite_device,
        last_page=None if profile.last_page is None else profile.last_page[2],
    )


PROFILE = View(
    memory=MEMORY,
    shown="""
        first_seen_at_ms long, last_seen_at_ms long, events long, purchases long, spent_cents long,
        favourite_category string, favourite_device string, last_page string
    """,
    add=_profile_with,
    show=_shown,
)


def signals(events: DataFrame) -> DataFrame:
    """What the rules look at: one row for each event, rule and subject that it concerns."""
    failed_login = (F.col("kind") == "login") & ~F.col("ok")
    purchase = F.col("kind") == "purchase"
    signal = F.array(
        _signal(failed_login, rules.FAILED_LOGINS, subject="user_id", detail="event_id"),
        _signal(purchase, rules.TWO_COUNTRIES, subject="user_id", detail="country"),
        _signal(purchase, rules.CARD_BURST, subject="card", detail="event_id"),
    )
    return (
        events.where("late IS NULL")
        .select("at", "at_ms", "event_id", F.explode(signal).alias("signal"))
        .where("signal IS NOT NULL")
        .select("at", "at_ms", "event_id", "signal.*")
    )


def _signal(condition: Column, rule: rules.Rule, *, subject: str, detail: str) -> Column:
    return F.when(
        condition,
        F.struct(
            F.lit(rule.name).alias("rule"),
            F.col(subject).alias("subject"),
            F.col(detail).alias("detail"),
        ),
    )


def audit_rows(events: DataFrame) -> DataFrame:
    """Every record as it came, sound or not, and where it lies; its day is UTC's."""
    days = F.floor(F.unix_millis("timestamp") / DAY_MS).cast("int")
    return events.select(
        F.date_from_unix_date(days).alias("day"),
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "event_id",
        "user_id",
        "kind",
    )


def as_records(rows: DataFrame, *, key: str) -> DataFrame:
    """Rows as JSON for a topic, keyed by one of their columns."""
    return rows.select(
        F.col(key).cast("binary").alias("key"),
        F.to_json(F.struct("*")).cast("binary").alias("value"),
    )


def as_latest(views: DataFrame, *, key: str) -> DataFrame:
    """As `as_records`, of the latest view of each key; a tombstone for one that is forgotten."""
    fields = F.to_json(F.struct(key, f"{VIEW}.*"))
    return views.select(
        F.col(key).cast("binary").alias("key"),
        F.when(F.col(VIEW).isNotNull(), fields).cast("binary").alias("value"),
    )


def _only(kind: str, value: Column) -> Column:
    """The value for events of this kind, and null for others."""
    return F.when(F.col("kind") == kind, value)


def _seen(name: str) -> Column:
    """When an event that has this field happened; two at once are told apart by their ids."""
    return F.when(F.col(name).isNotNull(), F.struct("at_ms", "event_id"))
