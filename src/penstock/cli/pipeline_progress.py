"""What queries tell of their progress, as figures. Pure: it is given what Spark has told, as JSON.

A batch is told more than once; each counts once. Of a quiet query Spark tells the number of its
next batch, now and then, before there is one: that counts as nothing.

Spark keeps the last hundred reports. To read one takes many calls of Java, so `look_at` reads the
latest alone as long as no batch has ended unseen.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.model.identity import TopicPartition

RAN = "addBatch"  # how long the batch itself took: told when there was one


class Report(Protocol):
    """Spark's StreamingQueryProgress."""

    @property
    def batchId(self) -> int: ...

    @property
    def json(self) -> str: ...


class Reporting(Protocol):
    """Spark's StreamingQuery, as far as it reports."""

    @property
    def lastProgress(self) -> Report | None: ...

    @property
    def recentProgress(self) -> Sequence[Report]: ...


@dataclass(slots=True, kw_only=True)
class QueryFigures:
    """Of one query, since the command began."""

    query: str
    rows: int = 0
    batches: int = 0
    busy_ms: int = 0  # in all batches together
    batch_ms: int = 0  # of the last one
    last_batch_id: int | None = None
    status: str = ""  # what Spark says that it does now
    offsets: dict[TopicPartition, int] = field(default_factory=dict)  # read so far
    state_rows: int = 0  # of its operators that have state, after the last batch
    state_bytes: int = 0  # that their state stores take in memory
    rows_dropped: int = 0  # by its watermark: Spark says so nowhere else
    # By run: the reports of all batches before this one have been read.
    _next_batch_ids: dict[str, int] = field(default_factory=dict)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.busy_ms * 1000 if self.busy_ms else 0.0

    @property
    def is_idle(self) -> bool:
        return self.status.startswith("Waiting for")

    @property
    def stage(self) -> str:
        """What it does before its first batch is done."""
        if self.is_idle:
            return "waits for records"
        if not self.status or self.status.startswith("Initializing"):
            return "is being prepared"
        return "works on its first batch"

    def look_at(self, query: Reporting, *, run_id: str) -> None:
        """Takes what a run of the query has reported since the last look."""
        latest = query.lastProgress
        if latest is None:
            return
        next_id = self._next_batch_ids.get(run_id)
        is_next = next_id is not None and latest.batchId <= next_id
        for report in (latest,) if is_next else query.recentProgress:
            progress = json.loads(report.json)
            self.take(progress)
            after = report.batchId + (1 if _has_run(progress) else 0)
            self._next_batch_ids[run_id] = max(after, self._next_batch_ids.get(run_id, 0))

    def take(self, progress: Mapping[str, object]) -> None:
        """One report of Spark's, as `StreamingQueryProgress` has it."""
        batch_id, rows = progress.get("batchId"), progress.get("numInputRows")
        if not isinstance(batch_id, int) or not isinstance(rows, int) or not _has_run(progress):
            return
        if self.last_batch_id is not None and batch_id <= self.last_batch_id:
            return
        self.last_batch_id = batch_id
        self.batches += 1
        self.rows += rows
        durations = progress["durationMs"]
        took = durations.get("triggerExecution") if isinstance(durations, dict) else None
        self.batch_ms = took if isinstance(took, int) else 0
        self.busy_ms += self.batch_ms
        sources = progress.get("sources")
        for source in sources if isinstance(sources, list) else ():
            self.offsets.update(_offsets(source.get("endOffset")))
        operators = progress.get("stateOperators")
        stateful = operators if isinstance(operators, list) else []
        self.state_rows = sum(one.get("numRowsTotal", 0) for one in stateful)
        self.state_bytes = sum(one.get("memoryUsedBytes", 0) for one in stateful)
        self.rows_dropped += sum(one.get("numRowsDroppedByWatermark", 0) for one in stateful)

    def lag(self, ends: Mapping[TopicPartition, int]) -> int | None:
        """Records that are there and not read yet; None while nothing is known."""
        known = [end - self.offsets[place] for place, end in ends.items() if place in self.offsets]
        return sum(max(0, behind) for behind in known) if known else None

    def summary(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {
            "query": self.query,
            "batches": self.batches,
            "rows": self.rows,
            "rows_per_second": round(self.rows_per_second, 1),
            "last_batch_ms": self.batch_ms,
            "state_rows": self.state_rows,
            "state_bytes": self.state_bytes,
            "rows_dropped_by_watermark": self.rows_dropped,
        }


def waiting_for(
    figures: Sequence[QueryFigures], *, pipeline: str, inputs: Sequence[str]
) -> str | None:
    """What there is to wait for; None when every query has done its first batch, with records."""
    if not figures:
        return f"the queries of {pipeline} are being started"
    if all(one.is_idle and one.rows == 0 for one in figures):
        if not inputs:
            return "there is nothing new to read yet"
        return (
            f"there are no new records in {', '.join(inputs)}; `penstock pipeline generate"
            f" {pipeline} --count 10000` writes some"
        )
    return ", ".join(f"{one.query} {one.stage}" for one in figures if not one.batches) or None


def dropped_warning(figures: QueryFigures) -> str:
    count = figures.rows_dropped
    rows = "1 row" if count == 1 else f"{count:,} rows"
    return (
        f"warning: {figures.query}: Spark dropped {rows} that its watermark had passed; they are in"
        " no output and no dead letter"
    )


def _has_run(progress: Mapping[str, object]) -> bool:
    durations = progress.get("durationMs")
    return isinstance(durations, dict) and RAN in durations


def _offsets(told: object) -> dict[TopicPartition, int]:
    """`{"topic": {"0": 12}}`, as it is or as text; nothing where a source has other positions."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return {}
    if not isinstance(told, dict):
        return {}
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in told.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if partition.isdigit() and isinstance(offset, int)
    }
