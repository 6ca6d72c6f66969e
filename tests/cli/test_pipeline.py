"""The ready pipelines on the command line, as far as they need no Spark."""

import json
import pkgutil
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.cli.pipeline_load import events_of, story_days
from penstock.cli.pipeline_progress import QueryFigures, dropped_warning, waiting_for
from penstock.cli.pipeline_run import one_line
from penstock.client.admin.topology import read_topology
from penstock.model.error import PenstockError
from penstock.model.identity import TopicPartition
from penstock.spark import pipelines
from penstock.spark.pipelines.catalogue import PIPELINES
from penstock.testing import Broker

Run = Callable[..., Any]


def test_every_pipeline_is_listed_with_what_it_reads(run: Run) -> None:
    listed = run("pipeline list --json").json()
    assert [one["name"] for one in listed] == list(PIPELINES)
    assert "commerce.orders" in run("pipeline list").text


def test_every_package_of_a_pipeline_is_in_the_catalogue() -> None:
    packages = {one.name for one in pkgutil.iter_modules(pipelines.__path__) if one.ispkg}
    assert packages == set(PIPELINES)


@pytest.mark.parametrize("name", list(PIPELINES))
def test_a_topology_declares_and_explains_every_topic_of_its_pipeline(name: str) -> None:
    pipeline = PIPELINES[name]
    wanted = read_topology(pipeline.topology)
    topics = {one for one in (*pipeline.inputs, *pipeline.outputs) if " " not in one}
    assert topics <= set(wanted)
    assert all(topic.guarantee is not None for topic in wanted.values())
    assert "#" in pipeline.topology.read_text(encoding="utf-8")


def test_a_seed_writes_the_same_events_to_the_topics_of_the_pipeline(
    run: Run, penstock: Broker
) -> None:
    generate = "pipeline generate wordcount --count 50 --seed 7 --json"
    told = run(generate, bootstrap=penstock.bootstrap).json()
    assert (told["seed"], told["topics"]) == (7, {"wordcount.lines": 50})
    run(generate, bootstrap=penstock.bootstrap)
    lines = run("consume wordcount.lines", bootstrap=penstock.bootstrap).lines
    assert len(lines) == 100
    assert len(set(lines)) <= 50
    described = run("topics describe wordcount.counts --json", bootstrap=penstock.bootstrap).json()
    assert described[0]["settings"]["cleanup.policy"] == "compact"


def test_a_pipeline_bears_topics_to_which_partitions_were_added(run: Run, penstock: Broker) -> None:
    generate = "pipeline generate wordcount --count 20 --seed 7"
    assert run(generate, bootstrap=penstock.bootstrap).status == 0
    grown = "topics alter wordcount.lines --partitions 9"
    assert run(grown, bootstrap=penstock.bootstrap).status == 0
    assert run(generate, bootstrap=penstock.bootstrap).status == 0


def test_events_come_at_a_rate(run: Run, penstock: Broker) -> None:
    command = "pipeline generate wordcount --count 20 --rate 100 --json"
    assert run(command, bootstrap=penstock.bootstrap).json()["seconds"] >= 0.19


@pytest.mark.parametrize("name", ["commerce", "clickstream"])
def test_a_story_of_many_events_begins_early_enough_to_be_over_by_now(name: str) -> None:
    """Events of the future would be dead letters."""
    pipeline = PIPELINES[name]
    count = 20_000
    days = story_days(pipeline, count)
    assert days == 1
    assert pipeline.events_per_day is not None
    assert story_days(pipeline, pipeline.events_per_day) == 1
    assert story_days(pipeline, pipeline.events_per_day + 1) == 2
    now_ms = time.time_ns() // 1_000_000
    assert all(
        event.timestamp_ms <= now_ms for event in islice(events_of(pipeline, 1, count=count), count)
    )


def test_bounds_of_event_time_are_durations(run: Run) -> None:
    outcome = run("pipeline run commerce --event-time-ahead soon")
    assert outcome.status == 2
    assert "'soon': expected a duration such as 90s, 5m or 30d" in outcome.err
    outcome = run("pipeline run commerce --event-time-behind 9999999999999d")
    assert outcome.status == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("wordcount --forget-after soon", "'soon': expected a duration such as 90s, 5m or 30d"),
        ("wordcount --forget-after 0s", "'0s' must be longer than 0"),
        (
            "replay --forget-after 30d",
            "replay can't forget keys: --forget-after is for wordcount and clickstream",
        ),
    ],
)
def test_keys_are_forgotten_after_a_duration_where_that_makes_sense(
    run: Run, options: str, told: str
) -> None:
    outcome = run(f"pipeline run {options}")
    assert outcome.status == 2
    assert told in outcome.err
    assert outcome.err.count("\n") <= 4  # usage, hint and the error


def test_a_database_that_is_not_there_is_told_in_one_line(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    outcome = run(f"pipeline generate cdc --count 1 --postgres 'host={tmp_path} dbname=shop'")
    assert (outcome.status, outcome.err.count("\n")) == (1, 1)
    assert outcome.err.startswith("penstock: PostgreSQL: connection")


def test_a_pipeline_that_is_not_there_is_told(run: Run) -> None:
    outcome = run("pipeline run nosuch")
    assert outcome.status == 2
    assert "'nosuch' is not one of 'wordcount', 'commerce'" in outcome.err


@pytest.mark.parametrize("command", ["pipeline run wordcount", "demo"])
def test_without_spark_one_line_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    late = ("pyspark", "penstock.spark.start", "penstock.spark.pipelines.wordcount.job")
    for name in [one for one in sys.modules if one.startswith(late)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    outcome = run(command)
    assert outcome.status == 1
    assert outcome.err.endswith("needs Spark: pip install 'penstock[spark]'\n")
    assert outcome.err.count("\n") == 1


def progress(batch: int, rows: int, end: object) -> dict[str, object]:
    return {
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 500, "addBatch": 400},
        "sources": [{"endOffset": end}],
    }


def test_a_batch_counts_once_however_often_it_is_told() -> None:
    figures = QueryFigures(query="q")
    assert figures.lag({TopicPartition("t", 0): 10}) is None
    for told in (progress(0, 5, {"t": {"0": 5}}), progress(0, 5, {"t": {"0": 5}}), {},
                 progress(1, 3, json.dumps({"t": {"0": 8, "1": 2}}))):  # fmt: skip
        figures.take(told)
    assert (figures.rows, figures.batches, figures.rows_per_second) == (8, 2, 8.0)
    ends = {TopicPartition("t", 0): 10, TopicPartition("t", 1): 2, TopicPartition("u", 0): 99}
    assert figures.lag(ends) == 2


def test_rows_that_spark_drops_are_summed_over_operators_and_batches() -> None:
    figures = QueryFigures(query="shop.revenue")
    for batch, dropped in ((3, 0), (4, 2), (4, 2), (5, 1)):
        operators = [{"numRowsDroppedByWatermark": dropped}, {}]
        figures.take(progress(batch, 1, {}) | {"stateOperators": operators})
    assert figures.rows_dropped == 3
    assert figures.summary()["rows_dropped_by_watermark"] == 3
    assert dropped_warning(figures) == (
        "warning: shop.revenue: Spark dropped 3 rows that its watermark had passed; they are in no"
        " output and no dead letter"
    )


class Report(NamedTuple):
    batchId: int
    json: str


class Reports:
    """A query that keeps its reports, as Spark does, and counts how many were read."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.reads = 0

    def add(self, *batches: int, idle: int | None = None) -> None:
        told = [progress(batch, 2, {}) for batch in batches]
        if idle is not None:
            told.append(progress(idle, 0, {}) | {"durationMs": {"triggerExecution": 1}})
        self.reports += [Report(batch_of(one), json.dumps(one)) for one in told]

    @property
    def lastProgress(self) -> Report | None:
        self.reads += 1
        return self.reports[-1] if self.reports else None

    @property
    def recentProgress(self) -> list[Report]:
        self.reads += len(self.reports)
        return self.reports


def batch_of(told: dict[str, object]) -> int:
    batch = told["batchId"]
    assert isinstance(batch, int)
    return batch


def test_the_latest_report_is_enough_while_no_batch_was_missed() -> None:
    query, figures = Reports(), QueryFigures(query="q")
    figures.look_at(query, run_id="r")
    query.add(*range(40, 100))  # a query that goes on, and was not looked at
    figures.look_at(query, run_id="r")
    assert (figures.batches, figures.rows) == (60, 120)
    query.reads = 0
    for batch in range(100, 120):
        query.add(batch)
        figures.look_at(query, run_id="r")
        figures.look_at(query, run_id="r")
    query.add(idle=120)
    for _ in range(10):
        figures.look_at(query, run_id="r")
    assert (figures.batches, query.reads) == (80, 50)


def test_batches_that_ended_between_two_looks_are_counted_too() -> None:
    query, figures = Reports(), QueryFigures(query="q")
    query.add(0)
    figures.look_at(query, run_id="r")
    query.add(1, 2, 3)
    figures.look_at(query, run_id="r")
    query.add(4, idle=5)  # the idle report hides that batch 4 has run
    figures.look_at(query, run_id="r")
    assert (figures.batches, figures.rows) == (5, 10)


def test_a_query_that_is_started_again_goes_on_being_counted() -> None:
    figures = QueryFigures(query="q")
    for run, batches in (("first", (0, 1)), ("second", (1, 2, 3))):
        query = Reports()
        query.add(*batches)
        figures.look_at(query, run_id=run)
    assert (figures.batches, figures.last_batch_id) == (4, 3)


def test_state_is_that_of_all_operators_after_the_last_batch() -> None:
    figures = QueryFigures(query="q")
    for rows in (5, 3):
        operator = {"numRowsTotal": rows, "memoryUsedBytes": 100 * rows}
        figures.take(progress(8 - rows, 1, {}) | {"stateOperators": [operator, operator]})
    assert (figures.state_rows, figures.state_bytes) == (6, 600)
    assert figures.summary()["state_rows"] == 6


def test_a_batch_that_is_yet_to_come_does_not_count_and_counts_when_it_has_run() -> None:
    idle = progress(3, 0, {}) | {"durationMs": {"triggerExecution": 2, "latestOffset": 2}}
    figures = QueryFigures(query="q")
    for told in (idle, idle, progress(3, 50, {"t": {"0": 50}})):
        figures.take(told)
    assert (figures.rows, figures.batches, figures.last_batch_id) == (50, 1, 3)


@pytest.mark.parametrize(
    ("told", "waiting"),
    [
        ({}, "the queries of shop are being started"),
        (
            {"a": ("Initializing sources", 0), "b": ("Processing new data", 0)},
            "a is being prepared, b works on its first batch",
        ),
        (
            {"a": ("Waiting for data to arrive", 0), "b": ("Processing new data", 0)},
            "a waits for records, b works on its first batch",
        ),
        (
            {"a": ("Waiting for data to arrive", 0), "b": ("Waiting for next trigger", 0)},
            "there are no new records in t, u; `penstock pipeline generate shop --count 10000`"
            " writes some",
        ),
        ({"a": ("Waiting for next trigger", 5), "b": ("", 0)}, "b is being prepared"),
        ({"a": ("Waiting for next trigger", 5), "b": ("Processing new data", 5)}, None),
    ],
)
def test_what_a_run_waits_for_is_told_until_it_has_read_something(
    told: dict[str, tuple[str, int]], waiting: str | None
) -> None:
    figures = [
        QueryFigures(query=query, status=status, rows=rows, batches=1 if rows else 0)
        for query, (status, rows) in told.items()
    ]
    assert waiting_for(figures, pipeline="shop", inputs=("t", "u")) == waiting


def test_an_error_comes_after_all_that_is_written_at_the_exit() -> None:
    program = """
import atexit
from penstock.cli.last_line import say_after, say_error
say_after(lambda: print("java has ended", flush=True))
atexit.register(lambda: print("clean-up", flush=True))
say_error("why it failed")
print("the program has ended", flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=True,
    )
    lines = ["the program has ended", "clean-up", "java has ended", "why it failed"]
    assert done.stdout.splitlines() == lines


def test_an_error_is_told_when_the_end_of_java_fails() -> None:
    program = """
from penstock.cli.last_line import say_after, say_error
say_after(lambda: 1 / 0)
say_error("why it failed")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert "why it failed" in done.stderr.splitlines()


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PenstockError("two\nlines"), "two lines"),
        (ValueError("first\n  at java\n"), "first"),
        (ValueError("x\n  penstock.spark.errors.Lost: it is: gone\n  at java"), "it is: gone"),
        (
            ValueError("An error occurred while calling o8.start.\n: java.X: why\n at"),
            "java.X: why",
        ),
        (ValueError(), "ValueError"),
    ],
)
def test_whatever_fails_is_told_in_one_line(error: Exception, line: str) -> None:
    assert one_line(error) == line
