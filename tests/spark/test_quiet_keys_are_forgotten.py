"""Words and users without an event for `forget_after` leave the state, and get a tombstone."""

import json
import shutil
from collections import defaultdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.pipelines.checkpoint_state import OtherState
from penstock.spark.pipelines.clickstream import job as clickstream
from penstock.spark.pipelines.clickstream import steps as people
from penstock.spark.pipelines.clickstream.generate import acts
from penstock.spark.pipelines.event_time_bounds import DAY_MS, HOUR_MS, MINUTE_MS
from penstock.spark.pipelines.generated import START_MS, Event
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.streams import read_topics
from penstock.spark.pipelines.wordcount import job as wordcount
from penstock.spark.pipelines.wordcount import steps
from penstock.spark.pipelines.wordcount.names import COUNTS, LINES
from rig.pipeline_input import make_topics, produce
from rig.serve import ServedNode
from rig.sink_output import committed_records

RECORDS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"


def place_of(node: ServedNode, folder: Path, *, forget_after_ms: int | None = HOUR_MS) -> Place:
    return Place(
        bootstrap=node.bootstrap, folder=str(folder), once=True, forget_after_ms=forget_after_ms
    )


def line(text: str, *, minute: int) -> Event:
    return Event(LINES, None, text.encode(), START_MS + minute * MINUTE_MS)


def visit(user: str, *, minute: int) -> Event:
    at_ms = START_MS + minute * MINUTE_MS
    fields = {"event_id": f"{user} {minute}", "user_id": user, "kind": "page_view", "at_ms": at_ms,
              "device": "phone", "country": "NL", "page": f"/{minute}"}  # fmt: skip
    return Event(clickstream.EVENTS, user.encode(), json.dumps(fields).encode(), at_ms)


def rows_of_state(query: StreamingQuery) -> int:
    """So many are left when it has done all there is to do."""
    query.awaitTermination()
    [operator] = json.loads(query.recentProgress[-1].json)["stateOperators"]
    rows = operator["numRowsTotal"]
    assert isinstance(rows, int)
    return rows


def written(node: ServedNode, topic: str) -> dict[str, list[bytes | None]]:
    """The values of each key, in their order."""
    found: dict[str, list[bytes | None]] = defaultdict(list)
    for record in sorted(committed_records(node.bootstrap, topic), key=lambda one: one.offset):
        found[(record.key or b"").decode()].append(record.value)
    return found


def test_a_quiet_word_is_forgotten_over_restarts_and_counts_from_1_when_it_comes_again(
    spark: SparkSession, node: ServedNode, folder: Path
) -> None:
    make_topics(node.bootstrap, "wordcount")
    parts = (
        ([line("quiet busy", minute=0)], 2),
        ([line("busy", minute=50)], 2),
        ([line("busy", minute=70)], 1),
        ([line("quiet quiet", minute=71), line("late", minute=5)], 2),
    )
    for lines, rows in parts:
        produce(node.bootstrap, lines)
        [query] = wordcount.start(spark, place_of(node, folder))
        assert rows_of_state(query) == rows
    assert written(node, COUNTS) == {"quiet": [b"1", None, b"2"], "busy": [b"1", b"2", b"3"]}


def test_a_quiet_user_is_forgotten_and_has_a_new_profile_when_it_comes_back(
    spark: SparkSession, node: ServedNode, folder: Path
) -> None:
    make_topics(node.bootstrap, "clickstream")
    parts = (
        ([visit("quiet", minute=0), visit("busy", minute=0)], 2),
        ([visit("busy", minute=59), visit("busy", minute=70)], 1),
        ([visit("quiet", minute=75)], 2),
    )
    place = place_of(node, folder)
    for events, rows in parts:
        produce(node.bootstrap, events)
        records = read_topics(spark, place, clickstream.EVENTS)
        query = clickstream.write_profiles(people.sound(people.parsed(records)), place)
        assert rows_of_state(query) == rows
    found = written(node, clickstream.PROFILES)
    assert set(found) == {"quiet", "busy"}
    assert [events_of(value) for value in found["quiet"]] == [1, None, 1]
    assert [events_of(value) for value in found["busy"]] == [1, 3]


def events_of(value: bytes | None) -> int | None:
    if value is None:
        return None
    count = json.loads(value)["events"]
    assert isinstance(count, int)
    return count


def test_profiles_that_may_be_forgotten_are_those_of_all_events(
    spark: SparkSession, folder: Path
) -> None:
    rows = [
        (
            act.event.key, act.event.value, "t", 0, offset,
            datetime.fromtimestamp(act.event.timestamp_ms / 1000, UTC),
        )
        for offset, act in enumerate(islice(acts(11, users=20), 400))
    ]  # fmt: skip
    files = str(folder / "records")
    spark.createDataFrame(rows, RECORDS).repartition(2, "offset").write.parquet(files)
    events = people.sound(people.parsed(spark.read.parquet(files)))
    expected = people.as_records(people.profiles(events), key="user_id")
    stream = spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", 1).parquet(files)
    recent = people.recent_profiles(
        people.sound(people.parsed(stream)), forget_after_ms=365 * DAY_MS
    )
    query = (
        people.as_latest(recent, key="user_id")
        .writeStream.format("memory")
        .queryName("recent_profiles")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    latest: dict[bytes, bytes] = {}
    for row in spark.table("recent_profiles").collect():
        known, value = latest.get(bytes(row.key)), bytes(row.value)
        if known is None or (events_of(known) or 0) < (events_of(value) or 0):
            latest[bytes(row.key)] = value
    assert latest == {bytes(row.key): bytes(row.value) for row in expected.collect()}
    assert len(latest) > 10


def test_a_line_of_the_future_is_taken_for_one_of_now(spark: SparkSession) -> None:
    now = datetime.now(UTC)
    lines = [(now.replace(year=2099),), (datetime(1970, 1, 2, tzinfo=UTC),)]
    timed = steps.timed(spark.createDataFrame(lines, "timestamp timestamp"))
    future, past = timed.selectExpr("unix_seconds(at) AS s").collect()
    assert now.timestamp() - 1 <= future.s < now.timestamp() + 600
    assert past.s == 86_400


@pytest.mark.parametrize(("first", "then"), [(None, HOUR_MS), (HOUR_MS, None)])
def test_a_checkpoint_of_the_other_kind_is_refused_in_one_line(
    spark: SparkSession, node: ServedNode, folder: Path, first: int | None, then: int | None
) -> None:
    make_topics(node.bootstrap, "wordcount")
    produce(node.bootstrap, [line("word", minute=0)])
    [query] = wordcount.start(spark, place_of(node, folder, forget_after_ms=first))
    query.awaitTermination()
    with pytest.raises(OtherState) as refused:
        wordcount.start(spark, place_of(node, folder, forget_after_ms=then))
    was = "without" if first is None else "with"
    assert str(refused.value).startswith(f"wordcount.counts was started {was} --forget-after: ")
    assert "\n" not in str(refused.value)
    shutil.rmtree(place_of(node, folder).checkpoint(wordcount.QUERY))
    [query] = wordcount.start(spark, place_of(node, folder, forget_after_ms=then))
    assert rows_of_state(query) == 1
    assert written(node, COUNTS) == {"word": [b"1", b"1"]}


def test_the_time_until_a_key_is_forgotten_may_change(
    spark: SparkSession, node: ServedNode, folder: Path
) -> None:
    make_topics(node.bootstrap, "wordcount")
    produce(node.bootstrap, [line("quiet", minute=0), line("busy", minute=30)])
    [query] = wordcount.start(spark, place_of(node, folder))
    assert rows_of_state(query) == 2
    produce(node.bootstrap, [line("busy", minute=31)])
    [query] = wordcount.start(spark, place_of(node, folder, forget_after_ms=10 * MINUTE_MS))
    assert rows_of_state(query) == 1
    assert written(node, COUNTS)["quiet"] == [b"1", None]
