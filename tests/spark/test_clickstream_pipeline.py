"""The clickstream as a whole: events into a real node, and everything that is to come of them."""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from penstock.spark.dead_letter_headers import Letter, letter_of
from penstock.spark.pipelines.clickstream import job
from penstock.spark.pipelines.clickstream.generate import Act, acts
from penstock.spark.pipelines.generated import WRONG_TIMES_MS
from penstock.spark.pipelines.place import Place
from rig.clickstream import closed_sessions, dead_letters, known_profiles, planted_frauds
from rig.clients.confluent import ConfluentClient
from rig.pipeline_input import make_topics, send
from rig.serve import ServedNode
from rig.sink_output import committed_records, open_transactional_ids

pytestmark = pytest.mark.slow


def test_all_that_follows_from_the_events_is_there_once_over_a_restart(
    spark: SparkSession, node: ServedNode, confluent: ConfluentClient, folder: Path
) -> None:
    made = [of_2099(), *islice(acts(21, users=25), 700)]
    place = Place(bootstrap=node.bootstrap, folder=str(folder), once=True)
    make_topics(node.bootstrap, "clickstream")
    for part in (made[:400], made[400:]):
        send(confluent, (act.event for act in part))
        for query in job.start(spark, place):
            query.awaitTermination()

    sessions = values(node, job.SESSIONS)
    assert len(sessions) == len(closed_sessions(made)) > 10
    assert {session_of(value) for value in sessions} == closed_sessions(made)

    profiles = {value["user_id"]: value for value in values(node, job.PROFILES)}
    assert {
        user: (value["events"], value["last_seen_at_ms"], value["spent_cents"])
        for user, value in profiles.items()
    } == known_profiles(made)

    alerts = Counter((value["rule"], value["subject"]) for value in values(node, job.ALERTS))
    assert alerts == planted_frauds(made)
    assert len({rule for rule, _ in alerts}) == 3

    assert any(act.damaged for act in made)
    assert any(act.late for act in made)
    letters = committed_records(node.bootstrap, job.DEAD_LETTERS)
    assert sorted(letter.value or b"" for letter in letters) == dead_letters(made)
    told = [letter_of(letter.headers) for letter in letters]
    assert all(isinstance(one, Letter) and one.topic == job.EVENTS and one.reason for one in told)

    assert_audit(place.table(job.AUDIT), made)
    assert not [name for name in open_transactional_ids(node.bootstrap) if "clickstream" in name]


def of_2099() -> Act:
    """It would move the watermarks of sessions and alerts, and end both."""
    act = next(act for act in acts(22, users=25) if b'"purchase"' in (act.event.value or b""))
    fields = json.loads(act.event.value or b"") | {"at_ms": max(WRONG_TIMES_MS)}
    return Act(act.event._replace(value=json.dumps(fields).encode()), damaged=True)


def assert_audit(table: str, made: Sequence[Act]) -> None:
    """It has every event as it came, sound or not, once; and none can be taken away."""
    audit = DeltaTable(table)
    rows = audit.to_pyarrow_table().to_pylist()
    assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows) == len(made)
    assert Counter(row["value"] for row in rows) == Counter(act.event.value for act in made)
    with pytest.raises(Exception, match="append"):
        audit.delete()


def values(node: ServedNode, topic: str) -> list[dict[str, Any]]:
    return [json.loads(one.value or b"") for one in committed_records(node.bootstrap, topic)]


def session_of(value: dict[str, Any]) -> tuple[str, int, int, int, int]:
    return (
        value["user_id"],
        value["started_at_ms"],
        value["ended_at_ms"],
        value["events"],
        value["revenue_cents"],
    )
