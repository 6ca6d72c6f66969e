"""The whole shop against a node and a PostgreSQL: every output is proven."""

import json
from datetime import datetime
from itertools import islice
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.spark.pipelines.commerce import job, names
from penstock.spark.pipelines.commerce.generate import events
from penstock.spark.pipelines.commerce.lateness import PAYMENT_LATENESS
from penstock.spark.pipelines.commerce.proof import OUTPUTS, Finding, Output, Proof
from penstock.spark.pipelines.generated import Event
from penstock.spark.pipelines.place import Place
from rig.commerce import harms, is_sound
from rig.pipeline_input import make_topics, produce
from rig.serve import ServedNode
from rig.sink_output import committed_records, open_transactional_ids

pytestmark = pytest.mark.slow

COUNT = 1_000
# Enough batches for what an event of 2099 would do to those after the one that it is in.
BATCH_RECORDS = 300


def test_every_output_follows_from_the_events(
    spark: SparkSession, node: ServedNode, folder: Path, postgres: str
) -> None:
    make_topics(node.bootstrap, "commerce")
    proof, story = Proof(), [*of_2099(), *islice(events(1), COUNT), too_late_for_revenue()]
    for event in story:
        proof.take(event)
    produce(node.bootstrap, story)
    place = Place(
        bootstrap=node.bootstrap,
        folder=str(folder),
        postgres=postgres,
        once=True,
        batch_records_max=BATCH_RECORDS,
    )
    for query in job.start(spark, place):
        query.awaitTermination()
    found = {
        topic: [
            Output((one.key or b"").decode(), one.value or b"")
            for one in committed_records(node.bootstrap, topic)
        ]
        for topic in OUTPUTS
    }
    with psycopg.connect(postgres) as connection:
        table: dict[str, int] = dict(
            connection.execute(f"SELECT sku, level FROM {names.STOCK_TABLE}").fetchall()
        )
    findings = proof.findings(found, table)
    assert all(finding.rows > 0 for finding in findings if finding.what != names.STOCK_ALERTS)
    assert [finding for finding in findings if not finding.proven] == []
    ours = [one for one in open_transactional_ids(node.bootstrap) if one.startswith("commerce.")]
    assert ours == []
    for topic, harmed in harms(found):
        assert blamed(proof.findings(harmed, table)) == [topic]
    sku, level = next(iter(table.items()))
    others = {one: table[one] for one in table if one != sku}
    for wrong in (others, table | {sku: level + 1}, table | {"sku-x": 1}):
        assert blamed(proof.findings(found, wrong)) == [f"table {names.STOCK_TABLE}"]


def blamed(findings: list[Finding]) -> list[str]:
    return [finding.what for finding in findings if not finding.proven]


def too_late_for_revenue() -> Event:
    """A payment that was completed half an hour before its till sent it."""
    return next(
        one
        for one in events(2)
        if one.topic == names.PAYMENTS
        and b'"completed"' in (one.value or b"")
        and is_sound(one)
        and one.timestamp_ms - at_ms(one) > PAYMENT_LATENESS.late_ms_max
    )


def at_ms(event: Event) -> float:
    return datetime.fromisoformat(json.loads(event.value or b"")["at"]).timestamp() * 1000


def of_2099() -> list[Event]:
    """Events that would move the watermarks of revenue and of the order view, from another story:
    payments that were completed then, and one of an order of then.
    """
    wrong = [one for one in islice(events(2), 20_000) if b'at":"2099-' in (one.value or b"")]
    paid = [one for one in wrong if b'"completed"' in (one.value or b"")]
    return [
        next(one for one in paid if b'"at":"2099-' in (one.value or b"")),
        next(one for one in wrong if b'"ordered_at":"2099-' in (one.value or b"")),
    ]
