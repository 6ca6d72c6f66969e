"""Figures of a run while it goes on and when it is over: counts, rates, quantiles of latency."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.live import Live

from penstock.cli.show import OutputConsole

MB = 1_000_000
LATENCIES_MAX = 2_000_000  # of one run; later ones are counted and not kept
SHOWN_PER_SECOND = 4


@dataclass(slots=True, kw_only=True)
class Figures:
    """What has happened since the start."""

    started_s: float = field(default_factory=time.perf_counter)
    ended_s: float | None = None
    records: int = 0
    value_bytes: int = 0
    latencies_ms: list[float] = field(default_factory=list)
    is_whole: bool = True  # else Ctrl-C ended it

    @property
    def seconds(self) -> float:
        ended_s = time.perf_counter() if self.ended_s is None else self.ended_s
        return max(ended_s - self.started_s, 1e-9)

    def add(self, *, value_bytes: int, latency_ms: float | None = None) -> None:
        self.records += 1
        self.value_bytes += value_bytes
        if latency_ms is not None and len(self.latencies_ms) < LATENCIES_MAX:
            self.latencies_ms.append(latency_ms)

    def end(self) -> None:
        self.ended_s = time.perf_counter()

    def summary(self) -> dict[str, object]:
        """As `--json` prints it."""
        told: dict[str, object] = {
            "records": self.records,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.records / self.seconds, 1),
            "megabytes_per_second": round(self.value_bytes / MB / self.seconds, 3),
        }
        if self.latencies_ms:
            ordered = sorted(self.latencies_ms)
            told["latency_ms"] = {
                "p50": round(quantile(ordered, 0.5), 3),
                "p99": round(quantile(ordered, 0.99), 3),
                "p99.9": round(quantile(ordered, 0.999), 3),
                "max": round(ordered[-1], 3),
            }
        return told

    def line(self) -> str:
        """As people read it."""
        line = (
            f"{self.records:,} records in {self.seconds:.1f} s: "
            f"{self.records / self.seconds:,.0f} records/s, "
            f"{self.value_bytes / MB / self.seconds:,.2f} MB/s"
        )
        return line + latency_text(self.latencies_ms)


def latency_text(latencies_ms: Sequence[float]) -> str:
    if not latencies_ms:
        return ""
    ordered = sorted(latencies_ms)
    quantiles = ", ".join(
        f"{name} {quantile(ordered, share):.2f}"
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
    )
    return f"; latency {quantiles}, max {ordered[-1]:.2f} ms"


def quantile(ordered: Sequence[float], share: float) -> float:
    """The least value that `share` of all do not exceed."""
    assert ordered
    assert 0 < share <= 1, share
    return ordered[math.ceil(share * len(ordered)) - 1]


class LiveFigures:
    """Shows figures of the last moment where somebody looks; into a pipe it shows nothing."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        console = OutputConsole(stderr=True)
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._shown_s = figures.started_s
        self._shown_records = 0
        self._shown_bytes = 0
        self._shown_latencies = 0

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self) -> None:
        """Call it as often as you like: it shows some times a second."""
        now_s = time.perf_counter()
        elapsed = now_s - self._shown_s
        if self._live is None or elapsed < 1 / SHOWN_PER_SECOND:
            return
        figures = self._figures
        records = figures.records - self._shown_records
        moved = figures.value_bytes - self._shown_bytes
        latest = figures.latencies_ms[self._shown_latencies :]
        self._live.update(
            f"{figures.records:,} records; now {records / elapsed:,.0f} records/s, "
            f"{moved / MB / elapsed:,.2f} MB/s{latency_text(latest)}",
            refresh=True,
        )
        self._shown_s = now_s
        self._shown_records = figures.records
        self._shown_bytes = figures.value_bytes
        self._shown_latencies = len(figures.latencies_ms)
