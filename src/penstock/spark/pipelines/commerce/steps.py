"""From events of the shop to what others read of them: DataFrame to DataFrame, and nothing else.

    checked      rows of the three topics -> typed events, or why a row is none
    routed       orders and payments -> fulfilment, analytics, notifications, ledger; dead letters
    order_view   orders joined with their payments -> the latest state of each order
    revenue      completed payments -> cents per minute and region
    stock        inventory, article by article and in order -> levels and alerts; dead letters
    stock_rows   levels, as the topic has them -> rows of the table

What leaves for a topic has the columns of the sink: topic, key, value.
"""

import json
from collections.abc import Iterator

import pandas
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from penstock.spark import dead_letter
from penstock.spark.pipelines.commerce import names
from penstock.spark.pipelines.commerce.lateness import PAYMENT_LATENESS
from penstock.spark.pipelines.commerce.stock import NO_STOCK, Alert, Stock, StockEvent, fold
from penstock.spark.pipelines.event_time import (
    ahead_fault,
    behind_fault,
    late_fault,
    record_fault,
    replay_fault,
)
from penstock.spark.pipelines.event_time_bounds import DAY_MS, DEFAULT_BOUNDS, EventTimeBounds
from penstock.spark.schemas import BriefJson

ORDER = """
    event_id string NOT NULL, order_id string NOT NULL, customer_id string NOT NULL,
    event string NOT NULL, version bigint NOT NULL, region string NOT NULL,
    items array<struct<sku: string, quantity: bigint, price_cents: bigint>> NOT NULL,
    total_cents bigint NOT NULL, shipping string,
    ordered_at timestamp NOT NULL, at timestamp NOT NULL
"""
PAYMENT = """
    event_id string NOT NULL, transaction_id string NOT NULL, order_id string NOT NULL,
    customer_id string NOT NULL, event string NOT NULL, attempt bigint NOT NULL,
    version bigint NOT NULL, region string NOT NULL, amount_cents bigint NOT NULL, reason string,
    ordered_at timestamp NOT NULL, at timestamp NOT NULL
"""
INVENTORY = """
    event_id string NOT NULL, sku string NOT NULL, event string NOT NULL, version bigint NOT NULL,
    quantity bigint NOT NULL, order_id string, at timestamp NOT NULL
"""
STOCK_LEVEL = """
    sku string NOT NULL, level bigint NOT NULL, version bigint NOT NULL
"""
OUTPUT = "topic string, key string, value string"

# Of each topic: the column that its events come to, their schema, and what may happen.
KINDS = {
    names.ORDERS: ("order", ORDER, ("created", "updated", "cancelled")),
    names.PAYMENTS: ("payment", PAYMENT, ("initiated", "completed", "failed")),
    names.INVENTORY: ("stock", INVENTORY, ("updated", "reserved", "released")),
}
# Topics whose events move a watermark: by `at` revenue's, by `ordered_at` that of the order view.
# Stock is counted by versions: an event of the wrong time is as good as any other.
TIMED = (names.ORDERS, names.PAYMENTS)
REASON = "reason"
PAID = "completed"

# Records may come so much later than others with their timestamps, and still count for their order.
ORDER_LATE_MS_MAX = DAY_MS


def checked(
    rows: DataFrame, *topics: str, event_time: EventTimeBounds = DEFAULT_BOUNDS
) -> DataFrame:
    """The rows with the columns order, payment and stock, as far as their topics are named here,
    of which the one of the row's topic is set; or else `reason` says what is wrong with the row.
    """
    kinds = [(topic, *KINDS[topic]) for topic in topics or KINDS]
    text = F.col("value").cast("string")
    parsed = rows.select(
        "*",
        *(
            BriefJson(schema).raw(F.when(F.col("topic") == topic, text)).alias(column)
            for topic, column, schema, _ in kinds
        ),
    )
    faults = [
        F.when(F.col("topic") == topic, _fault(text, F.col(column), schema, happenings))
        for topic, column, schema, happenings in kinds
    ]
    faults += [
        F.when(
            F.col("topic") == topic,
            _time_fault(BriefJson(schema).value(F.col(column)), event_time),
        )
        for topic, column, schema, _ in kinds
        if topic in TIMED
    ]
    judged = parsed.withColumn(REASON, F.coalesce(*faults, replay_fault(rows)))
    good = F.col(REASON).isNull()
    return judged.withColumns(
        {
            column: F.when(good, BriefJson(schema).value(F.col(column)))
            for _, column, schema, _ in kinds
        }
    )


def _fault(text: Column, raw: Column, schema: str, happenings: tuple[str, ...]) -> Column:
    """A sentence, or null for an event that is as it should be."""
    event = BriefJson(schema)
    return F.coalesce(
        event.fault(text, raw),
        F.when(
            ~event.value(raw)["event"].isin(*happenings),
            F.lit(f"field event is none of {', '.join(happenings)}"),
        ),
    )


def _time_fault(event: Column, bounds: EventTimeBounds) -> Column:
    """An order of long ago is over for the order view: its events would vanish behind the
    watermark.
    """
    at_ms, ordered_ms = F.unix_millis(event["at"]), F.unix_millis(event["ordered_at"])
    return F.coalesce(
        record_fault(),
        ahead_fault("at", at_ms, bounds),
        ahead_fault("ordered_at", ordered_ms, bounds),
        behind_fault("at", at_ms, bounds),
        behind_fault("ordered_at", ordered_ms, bounds),
    )


def routed(events: DataFrame) -> DataFrame:
    """What each event of an order or a payment means for others, in the order of events, in the
    columns of the sink. What is no event becomes a dead letter, in the same write, and so does a
    payment that revenue leaves out.
    """
    order, payment = F.col("order"), F.col("payment")
    as_it_came = F.col("value").cast("string")
    fact = F.struct(
        *(order[name].alias(name) for name in ("event_id", "order_id", "event", "region")),
        F.size(order["items"]).alias("items"),
        *(order[name].alias(name) for name in ("total_cents", "at")),
    )
    news = (
        F.when(order["event"] == "created", "we have your order")
        .when(order["event"] == "cancelled", "your order is cancelled")
        .when(payment["event"] == "failed", "your payment did not go through")
    )
    customer = F.coalesce(order["customer_id"], payment["customer_id"])
    notice = F.struct(
        F.coalesce(order["event_id"], payment["event_id"]).alias("event_id"),
        F.coalesce(order["order_id"], payment["order_id"]).alias("order_id"),
        news.alias("text"),
    )
    records = F.array(
        _to(names.FULFILMENT, order["order_id"], as_it_came, when=order.isNotNull()),
        _to(names.ANALYTICS, order["region"], F.to_json(fact), when=order.isNotNull()),
        _to(names.LEDGER, payment["transaction_id"], as_it_came, when=payment.isNotNull()),
        _to(names.NOTIFICATIONS, customer, F.to_json(notice), when=news.isNotNull()),
        _letter_of(_late_for_revenue(events)),
    )
    there = F.filter(records, lambda record: record.isNotNull())
    # A bad row has no records, and stays as the one letter that it becomes.
    each = events.withColumn("records", there).where(
        F.col(REASON).isNotNull() | (F.size("records") > 0)
    )
    late = F.col("record")["late"]
    return dead_letter.route(
        each.withColumn("record", F.explode_outer("records")).withColumn(
            REASON, F.coalesce(REASON, late)
        ),
        good={name: F.col("record")[name] for name in ("topic", "key", "value")},
        dead_letters=names.DEAD_LETTERS,
        counted=late.isNotNull(),
    )


RECORD = "struct<topic: string, key: string, value: string, late: string>"


def _to(topic: str, key: Column, value: Column, *, when: Column) -> Column:
    late = F.lit(None).cast("string")
    return F.when(when, F.struct(F.lit(topic), key, value, late).cast(RECORD))


def _letter_of(late: Column) -> Column:
    nothing = F.lit(None).cast("string")
    return F.when(late.isNotNull(), F.struct(nothing, nothing, nothing, late).cast(RECORD))


def _late_for_revenue(events: DataFrame) -> Column:
    """A sentence for a payment whose minute may be over when it comes, and else null."""
    payment = F.col("payment")
    at_ms = F.unix_millis(payment["at"])
    return F.when(payment["event"] == PAID, late_fault(events, "at", at_ms, PAYMENT_LATENESS))


def order_view(events: DataFrame, *, event_time: EventTimeBounds = DEFAULT_BOUNDS) -> DataFrame:
    """One row for each order that something happened to, with all that is known of it. Of good
    events, by the bounds that they were checked with, the watermark drops none.

    Neither the order of topics nor that of arrival matters: versions and tries tell what is latest.
    """
    order_lasts_ms = event_time.behind_ms_max + event_time.ahead_ms_max + ORDER_LATE_MS_MAX
    order, payment = F.col("order"), F.col("payment")
    known = events.where(order.isNotNull() | payment.isNotNull()).select(
        F.coalesce(order["order_id"], payment["order_id"]).alias("order_id"),
        F.coalesce(order["ordered_at"], payment["ordered_at"]).alias("ordered_at"),
        order,
        payment,
    )
    latest = (
        known.withWatermark("ordered_at", f"{order_lasts_ms} milliseconds")
        .groupBy("order_id", "ordered_at")
        .agg(
            F.max_by(order, order["version"]).alias("order"),
            F.max_by(payment, F.struct(payment["attempt"], payment["version"])).alias("payment"),
            F.count(order).alias("order_events"),
            F.count(payment).alias("payment_events"),
        )
    )
    status = (
        F.when(order["event"] == "cancelled", "cancelled")
        .when(payment["event"] == "completed", "paid")
        .when(payment["event"] == "failed", "payment failed")
        .when(payment["event"] == "initiated", "paying")
        .otherwise("ordered")
    )
    view = F.struct(
        F.col("order_id"),
        status.alias("status"),
        order["customer_id"].alias("customer_id"),
        order["region"].alias("region"),
        order["total_cents"].alias("total_cents"),
        order["shipping"].alias("shipping"),
        payment["transaction_id"].alias("transaction_id"),
        payment["attempt"].alias("attempt"),
        F.col("order_events"),
        F.col("payment_events"),
        F.col("ordered_at"),
    )
    return latest.select(
        F.lit(names.ORDER_VIEW).alias("topic"),
        F.col("order_id").alias("key"),
        F.to_json(view).alias("value"),
    )


def revenue(events: DataFrame, *, event_time: EventTimeBounds = DEFAULT_BOUNDS) -> DataFrame:
    """Cents per minute and region. A minute that a late payment adds to comes once more. Payments
    that are too late are left out here, and become dead letters in `routed`.
    """
    delay_ms = PAYMENT_LATENESS.watermark_ms(event_time)
    paid = events.where(
        (F.col("payment")["event"] == PAID) & _late_for_revenue(events).isNull()
    ).select("payment.*")
    minutes = (
        paid.withWatermark("at", f"{delay_ms} milliseconds")
        .groupBy(F.window("at", "1 minute"), "region")
        .agg(F.sum("amount_cents").alias("revenue_cents"), F.count("*").alias("payments"))
    )
    minute = _minute_utc(F.col("window")["start"])
    total = F.struct(minute.alias("minute"), "region", "revenue_cents", "payments")
    return minutes.select(
        F.lit(names.REVENUE).alias("topic"),
        F.concat_ws("/", minute, F.col("region")).alias("key"),
        F.to_json(total).alias("value"),
    )


def _minute_utc(moment: Column) -> Column:
    """`2026-01-01T08:00Z`, whatever zone the session has, which Spark's own formats follow."""
    seconds = F.unix_seconds(moment)
    days = F.floor(seconds / 86_400)
    minutes = F.floor((seconds - days * 86_400) / 60)
    return F.format_string(
        "%sT%02d:%02dZ",
        F.date_from_unix_date(days.cast("int")).cast("string"),
        F.floor(minutes / 60),
        minutes % 60,
    )


def stock(events: DataFrame) -> DataFrame:
    """The new level of each article that something happened to, and an alert for each event that
    left less than nothing. Each article's events count in order of their versions. What is no event
    becomes a dead letter, in the same write.
    """
    folded = (
        events.where(F.col("stock").isNotNull())
        .select("stock.*")
        .groupBy("sku")
        .applyInPandasWithState(
            _stock_of_article,
            outputStructType=OUTPUT,
            stateStructType="settled bigint, version bigint, ahead string",
            outputMode="append",
            timeoutConf=GroupStateTimeout.NoTimeout,
        )
    )
    changes = folded.select(
        "topic", F.col("key").cast("binary").alias("key"), F.col("value").cast("binary")
    )
    letters = dead_letter.letters(events, dead_letters=names.DEAD_LETTERS)
    return changes.unionByName(letters, allowMissingColumns=True)


def _stock_of_article(
    key: tuple[str], parts: Iterator[pandas.DataFrame], state: GroupState
) -> Iterator[pandas.DataFrame]:
    before = _stored(*state.get) if state.exists else NO_STOCK
    columns = ("version", "event", "quantity", "event_id", "order_id")
    events = [
        StockEvent(*row)
        for part in parts
        for row in zip(*(part[column].tolist() for column in columns), strict=True)
    ]
    after, alerts = fold(before, events)
    if after == before:
        return
    state.update((after.settled, after.version, json.dumps(after.ahead)))
    [sku] = key
    rows = [(names.STOCK_LEVELS, sku, _level_json(sku, after))]
    rows += [(names.STOCK_ALERTS, sku, _alert_json(sku, alert)) for alert in alerts]
    yield pandas.DataFrame(rows, columns=["topic", "key", "value"])


def _stored(settled: int, version: int, ahead: str) -> Stock:
    events = tuple(StockEvent(*event) for event in json.loads(ahead))
    return Stock(settled=settled, version=version, ahead=events)


def _level_json(sku: str, stock: Stock) -> str:
    return _json({"sku": sku, "level": stock.level, "version": stock.highest})


def _alert_json(sku: str, alert: Alert) -> str:
    event = alert.event
    return _json(
        {
            "sku": sku,
            "kind": alert.kind.value,
            "level": alert.level,
            "event_id": event.event_id,
            "version": event.version,
            "order_id": event.order_id,
        }
    )


def _json(fields: dict[str, object]) -> str:
    return json.dumps(fields, separators=(",", ":"))


def stock_rows(levels: DataFrame) -> DataFrame:
    """Of each article its latest level: sku, level, version. All of one article are in one
    partition, so the offset tells which is the latest, also where an event came late.
    """
    parsed = levels.select(
        F.from_json(F.col("value").cast("string"), STOCK_LEVEL).alias("parsed"), "offset"
    )
    return (
        parsed.select("parsed.*", "offset")
        .groupBy("sku")
        .agg(F.max_by("level", "offset").alias("level"), F.max("version").alias("version"))
    )
