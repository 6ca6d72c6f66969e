"""Runs a pipeline: a session, its queries, what they tell on the way, and a clean end.

A job may wait for one of its queries before it starts the next, so what they tell is shown by
another thread. The job itself runs in this one: Spark finds sources and sinks of a session only in
the thread that made it.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.cli.connect import with_cluster
from penstock.cli.last_line import say_after
from penstock.cli.pipeline_load import load, start_of
from penstock.cli.pipeline_progress import QueryFigures, dropped_warning, waiting_for
from penstock.cli.show import OutputConsole
from penstock.client.admin.admin import Admin
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import When
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.errors import Refused
from penstock.model.error import PenstockError
from penstock.model.identity import TopicPartition
from penstock.spark.error_line import own_error_line
from penstock.spark.pipelines.catalogue import Pipeline
from penstock.spark.pipelines.event_time_bounds import EventTimeBounds
from penstock.spark.pipelines.place import Place

LOOK_SECONDS = 0.5
LAG_SECONDS = 3.0
LINE_SECONDS = 10.0  # between two lines where no terminal is
SETTINGS = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
CALLED = "An error occurred while calling "
LAG_RULES = ClusterRules(client_id="penstock-cli", request_ms_max=2_000, connect_ms_max=2_000)


class PipelineFailed(PenstockError):
    """A query ended that should not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWish:
    pipeline: Pipeline
    bootstrap: str
    master: str | None
    folder: str
    postgres: str | None
    seconds_max: float | None
    once: bool
    event_time: EventTimeBounds
    forget_after_ms: int | None = None
    config: Path | None = None  # --command-config

    def place(self) -> Place:
        return Place(
            bootstrap=self.bootstrap,
            folder=self.folder,
            config_file=None if self.config is None else str(self.config.resolve()),
            postgres=self.postgres,
            once=self.once,
            event_time=self.event_time,
            forget_after_ms=self.forget_after_ms,
        )


def run_pipeline(wish: RunWish, *, apply_first: Callable[[], None]) -> list[QueryFigures]:
    """Runs it to its end, Ctrl-C being one; raises PipelineFailed with one line of why."""
    start = start_of(wish.pipeline)
    spark_start: Any = load("penstock.spark.start", for_what=f"pipeline {wish.pipeline.name}")
    apply_first()
    console = OutputConsole(stderr=True)
    console.print(f"starting Spark for [bold]{wish.pipeline.name}[/bold], which takes some seconds")
    say_after(spark_start.end_java)
    spark = spark_start.session(f"penstock-{wish.pipeline.name}", master=wish.master, **SETTINGS)
    try:
        return _Run(wish, spark, start, console).to_the_end()
    finally:
        spark.stop()


class _Run:
    def __init__(
        self, wish: RunWish, spark: Any, start: Callable[..., Any], console: Console
    ) -> None:
        self._wish = wish
        self._spark = spark
        self._start = start
        self._shown = _Shown(console, wish)
        self._queries: dict[str, Any] = {}  # by run id, in the order in which they were seen
        self._figures: dict[str, QueryFigures] = {}
        self._began_s = time.monotonic()
        self._ended = threading.Event()

    def to_the_end(self) -> list[QueryFigures]:
        watching = threading.Thread(target=self._watch, name="progress", daemon=True)
        with contextlib.suppress(KeyboardInterrupt), self._shown:
            watching.start()
            try:
                self._start_queries()
                self._wait()
            finally:
                self._ended.set()
                watching.join()
        for query in self._spark.streams.active:
            query.stop()
        self._look()
        self._shown.warn(list(self._figures.values()))
        self._raise_failure()
        return list(self._figures.values())

    def _start_queries(self) -> None:
        try:
            for query in self._start(self._spark, self._wish.place()):
                self._queries.setdefault(str(query.runId), query)
        except Exception as error:  # whatever it is, it is told in one line
            raise PipelineFailed(one_line(error)) from error

    def _wait(self) -> None:
        """Until all queries have ended, one has failed, or the time is over."""
        deadline_s = None
        if self._wish.seconds_max is not None:
            deadline_s = self._began_s + self._wish.seconds_max
        while any(query.isActive for query in self._queries.values()):
            self._raise_failure()
            if deadline_s is not None and time.monotonic() > deadline_s:
                return
            time.sleep(LOOK_SECONDS)

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._look()
            self._shown.show(list(self._figures.values()))

    def _look(self) -> None:
        for query in self._spark.streams.active:
            self._queries.setdefault(str(query.runId), query)
        for query in list(self._queries.values()):
            name = query.name or str(query.id)
            figures = self._figures.setdefault(name, QueryFigures(query=name))
            figures.look_at(query, run_id=str(query.runId))
            if query.isActive:
                figures.status = query.status["message"]

    def _raise_failure(self) -> None:
        # A job may start a query again: of each, the last run is the one that counts.
        latest = {query.name or str(query.id): query for query in list(self._queries.values())}
        for query in latest.values():
            failure = None if query.isActive else query.exception()
            if failure is not None:
                told = f"query {query.name or query.id} failed: {one_line(failure)}"
                raise PipelineFailed(told) from failure


class _Shown:
    """A table that changes where somebody looks, and a line now and then where nobody does."""

    def __init__(self, console: Console, wish: RunWish) -> None:
        self._console = console
        self._wish = wish
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._ends: dict[TopicPartition, int] = {}
        self._asked_s = 0.0
        self._shown_s = time.monotonic()
        self._waiting: str | None = None  # what was told last
        self._dropped: dict[str, int] = {}  # rows by query, of which was warned

    def __enter__(self) -> None:
        if self._live is not None:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, figures: list[QueryFigures]) -> None:
        pipeline = self._wish.pipeline
        waiting = waiting_for(figures, pipeline=pipeline.name, inputs=pipeline.inputs)
        now_s = time.monotonic()
        if self._live is None and waiting is not None and waiting != self._waiting:
            self._say(f"waiting: {waiting}")
        self._waiting = waiting
        self.warn(figures)
        if self._live is None and now_s - self._shown_s < LINE_SECONDS:
            return
        if now_s - self._asked_s >= LAG_SECONDS:
            places = {place for one in figures for place in one.offsets}
            self._ends = end_offsets(self._wish.bootstrap, sorted(places), config=self._wish.config)
            self._asked_s = now_s
        if self._live is not None:
            parts: list[RenderableType] = [self._table(figures)] if figures else []
            if waiting is not None:
                parts.append(Text(f"waiting: {waiting}"))
            self._live.update(Group(*parts), refresh=True)
            return
        self._shown_s = now_s
        for one in figures:
            if not one.batches:
                continue
            lag = one.lag(self._ends)
            self._say(
                f"{one.query}: {one.rows:,} rows, {one.rows_per_second:,.0f} rows/s, lag"
                f" {'-' if lag is None else lag}, last batch {one.batch_ms} ms"
            )

    def warn(self, figures: list[QueryFigures]) -> None:
        """Of rows that Spark has dropped since it was warned of them."""
        for one in figures:
            if one.rows_dropped > self._dropped.get(one.query, 0):
                self._dropped[one.query] = one.rows_dropped
                self._say(dropped_warning(one))

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _table(self, figures: list[QueryFigures]) -> Table:
        table = Table("query", "batch", "rows", "rows/s", "lag", "batch time", "dropped")
        for one in figures:
            lag = one.lag(self._ends)
            table.add_row(
                one.query,
                "-" if one.last_batch_id is None else str(one.last_batch_id),
                f"{one.rows:,}",
                f"{one.rows_per_second:,.0f}",
                "-" if lag is None else f"{lag:,}",
                f"{one.batch_ms} ms",
                f"{one.rows_dropped:,}",
            )
        return table


def end_offsets(
    bootstrap: str, places: list[TopicPartition], *, config: Path | None = None
) -> dict[TopicPartition, int]:
    """Where the partitions end now; nothing while no broker answers, for it may come back."""
    if not places:
        return {}

    async def work(cluster: Cluster) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(places, When.LATEST)
        listed = await Admin(cluster).list_offsets(wanted, isolation=Isolation.READ_COMMITTED)
        return {
            place: found.offset
            for place, found in listed.items()
            if not isinstance(found, Refused) and found.offset is not None
        }

    try:
        return with_cluster(bootstrap, work, rules=LAG_RULES, config=config)
    except PenstockError:
        return {}


def one_line(error: BaseException) -> str:
    """What is at the bottom of it. Spark wraps a Python error in pages of Java, in which the
    sentence that we wrote stands behind the name of our own class.
    """
    if isinstance(error, PenstockError):
        return " ".join(str(error).split())
    own = own_error_line(str(error))
    if own is not None:
        return own
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Py4J's first line says which call it was, and the second what happened.
    told = [line.removeprefix(": ") for line in lines if not line.startswith(CALLED)]
    return told[0] if told else type(error).__name__
