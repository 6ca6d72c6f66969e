"""What is left of each key does not depend on how its topic is cut into batches."""

import os
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.tws_tester import TwsTester

from penstock.spark.pipelines.event_time_bounds import DAY_MS
from penstock.spark.pipelines.forgetting import AT_MS, VIEW, ForgetQuietKeys, last_run
from penstock.spark.pipelines.wordcount.steps import COUNT, recent_counts

FORGET_DAYS = 30
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pyarrow.schema({"word": pyarrow.string(), "at": pyarrow.timestamp("us", tz="UTC")})
Event = tuple[int, str]  # a day and a word
# In the order of their days, as they are read.
EVENTS: tuple[Event, ...] = (
    (0, "back"),
    (0, "after exactly so long"),
    (1, "quiet"),
    (20, "back"),
    (30, "after exactly so long"),
    (60, "back"),
    (60, "after exactly so long"),
    (61, "lasting"),
    (80, "back"),
    (80, "lasting"),
    (85, "after exactly so long"),
)
LEFT = {"back": 2, "quiet": None, "lasting": 2, "after exactly so long": 2}


def cut(events: Sequence[Event], *ends: int) -> list[Sequence[Event]]:
    return [events[begin:end] for begin, end in pairwise((0, *ends, len(events)))]


def counted(batches: Sequence[Sequence[Event]]) -> dict[str, list[int | None]]:
    """What is written of each word, by Spark's own tester of a processor."""
    processor = ForgetQuietKeys(COUNT, "word", forget_after_ms=FORGET_DAYS * DAY_MS)
    tester = TwsTester(
        processor, timeMode="eventTime", eventTimeExtractor=lambda row: row[AT_MS]
    )  # fmt: skip
    written: dict[str, list[int | None]] = defaultdict(list)
    watermark_ms = 0
    for batch in filter(None, batches):
        out: list[Row] = []
        for word, events in groupby(sorted(batch, key=lambda one: one[1]), lambda one: one[1]):
            # Days are counted from one on which no event is late yet.
            rows = [Row(**{AT_MS: (1 + day) * DAY_MS}) for day, _ in events]
            out += tester.test(word, list(reversed(rows)))
        latest_ms = (1 + max(day for day, _ in batch)) * DAY_MS
        if latest_ms - FORGET_DAYS * DAY_MS > watermark_ms:
            watermark_ms = latest_ms - FORGET_DAYS * DAY_MS
            out += tester.setWatermark(watermark_ms)
        for row in out:
            written[row.word].append(None if row[VIEW] is None else row[VIEW]["count"])
    return written


def left(written: dict[str, list[int | None]]) -> dict[str, int]:
    """The words that a compacted topic keeps."""
    return {word: counts[-1] for word, counts in written.items() if counts[-1] is not None}


def test_a_backlog_leaves_what_live_reading_leaves() -> None:
    live = counted(cut(EVENTS, *range(1, len(EVENTS))))
    backlog = counted([EVENTS])
    assert {word: counts[-1] for word, counts in live.items()} == LEFT
    assert {word: counts[-1] for word, counts in backlog.items()} == LEFT
    assert live["back"] == [1, 2, None, 1, 2]
    assert backlog["back"] == [2]


def test_a_key_that_begins_anew_in_a_batch_of_its_own_gets_its_tombstone_first() -> None:
    assert counted([[(0, "a")], [(40, "a")]])["a"] == [1, None, 1]
    assert counted([[(0, "a")], [(10, "a"), (40, "a"), (41, "a"), (80, "a")]])["a"] == [1, None, 1]


@given(
    st.lists(
        st.tuples(st.integers(0, 35), st.sampled_from("abc"), st.booleans()),
        min_size=1,
        max_size=20,
    )
)
def test_every_cut_of_events_in_their_order_leaves_the_same(
    steps: Sequence[tuple[int, str, bool]],
) -> None:
    """`steps`: the days since the event before, the word, and whether a batch ends there."""
    events, ends, day = [], [], 0
    for number, (pause_days, word, is_end) in enumerate(steps, start=1):
        day += pause_days
        events.append((day, word))
        ends += [number] if is_end else []
    assert left(counted(cut(events, *ends))) == left(counted([events]))


def test_an_event_of_an_earlier_run_does_not_count() -> None:
    old, joined, new = (Row(**{AT_MS: at_ms}) for at_ms in (90, 91, 100))
    assert last_run(100, [old], forget_after_ms=10).events == []
    assert last_run(100, [old, joined], forget_after_ms=10) == (False, [joined], 100)
    assert last_run(None, [new, old], forget_after_ms=10) == (True, [new], 100)


@pytest.mark.parametrize("ends", [(), (3, 5, 8)], ids=["one batch", "four batches"])
def test_a_query_leaves_the_same(spark: SparkSession, folder: Path, ends: tuple[int, ...]) -> None:
    files = folder / "events"
    files.mkdir()
    for number, events in enumerate(cut(EVENTS, *ends)):
        rows = [{"word": word, "at": BEGIN + timedelta(days=day)} for day, word in events]
        file = files / f"{number}.parquet"
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=SCHEMA), file)
        os.utime(file, (number, number))  # files are read in the order of their times
    stream = spark.readStream.schema("word string, at timestamp").option("maxFilesPerTrigger", 1)
    recent = recent_counts(stream.parquet(str(files)), forget_after_ms=FORGET_DAYS * DAY_MS)
    name = f"counts_of_{len(ends)}"
    query = recent.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    query.start().awaitTermination()
    written: dict[str, list[int | None]] = defaultdict(list)
    for row in spark.table(name).collect():
        written[row.key].append(None if row.value is None else int(row.value))
    assert {word: counts[-1] for word, counts in written.items()} == LEFT
    assert written["back"] == ([1, 2, None, 1, 2] if ends else [2])
