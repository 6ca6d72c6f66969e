"""From measurements to a table: the least of the rounds, ours beside Kafka's, and the ratio."""

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from cases import Case, Kind
from loading import Measured, Templates
from rich.console import Console
from rich.table import Table

GB = 1e9
MB = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run in the units of the table."""

    rate: float  # MB or requests a second
    cost: float  # CPU seconds a GB of values, or microseconds a request, or cores
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    p999_ms: float = 0.0


def figures_of(case: Case, templates: Templates, measured: Measured) -> Figures:
    value_bytes = measured.bytes * templates.value_share
    quantiles = {name: getattr(measured, name) for name in ("p50_ms", "p99_ms", "p999_ms")}
    match case.kind:
        case Kind.SMALL:
            return Figures(
                rate=measured.requests / measured.seconds,
                cost=measured.cpu_seconds / measured.requests * 1e6,
                **quantiles,
            )
        case Kind.LATENCY:
            return Figures(
                rate=measured.requests / measured.seconds,
                cost=measured.cpu_seconds / measured.seconds,
                **quantiles,
            )
        case _:
            return Figures(
                rate=value_bytes / MB / measured.seconds,
                cost=measured.cpu_seconds / (value_bytes / GB),
            )


UNITS = {
    Kind.PRODUCE: ("MB/s", "s/GB"),
    Kind.FETCH: ("MB/s", "s/GB"),
    Kind.TAIL: ("MB/s", "s/GB"),
    Kind.SMALL: ("req/s", "µs/req"),
    Kind.LATENCY: ("msg/s", "cores"),
}


class Ledger:
    """Every measurement, as a line of JSON where that is asked for, and the table over them all."""

    def __init__(self, path: Path | None) -> None:
        self._file: TextIO | None = None
        if path is not None:
            self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115  # closed by `close`
        self._runs: dict[tuple[str, str], list[Figures]] = {}
        self._single: dict[tuple[str, str], tuple[list[float], str]] = {}
        self._library: dict[str, float] = {}

    def add(self, case: Case, broker: str, round_number: int, run: Figures, raw: Measured) -> None:
        self._runs.setdefault((case.name, broker), []).append(run)
        line = {"case": case.name, "broker": broker, "round": round_number}
        self._write({**line, "figures": asdict(run), "measured": asdict(raw)})

    def add_single(self, name: str, broker: str, value: float, unit: str) -> None:
        self._single.setdefault((name, broker), ([], unit))[0].append(value)
        self._write({"case": name, "broker": broker, "value": value, "unit": unit})

    def add_library(self, case: Case, cost: float) -> None:
        """What decompression alone costs in this case."""
        self._library[case.name] = cost
        self._write({"case": case.name, "library": cost})

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def show(self, console: Console, cases: Iterable[Case], brokers: list[str], title: str) -> None:
        table = Table(title=title)
        table.add_column("case", no_wrap=True)
        headings = [*(f"{name} cost" for name in brokers), "ratio"]
        headings += ["decompression", *(f"{name} rate" for name in brokers)]
        headings += [f"{name} p50 / p99" for name in brokers]
        for heading in headings:
            table.add_column(heading, justify="right")
        for case in cases:
            runs = [self._runs.get((case.name, name), []) for name in brokers]
            if all(runs):
                table.add_row(*self._row(case, runs))
        for name in dict.fromkeys(name for name, _ in self._single):
            found = [self._single.get((name, broker)) for broker in brokers]
            values = [statistics.median(one[0]) if one else None for one in found]
            unit = next(one[1] for one in found if one)
            shown = ["" if value is None else f"{value:,.0f} {unit}" for value in values]
            table.add_row(name, *shown, ratio(values))
        console.print(table)

    def _row(self, case: Case, runs: list[list[Figures]]) -> list[str]:
        rate_unit, cost_unit = UNITS[case.kind]
        digits = 1 if case.kind is Kind.SMALL else 3
        costs = [[run.cost for run in of_broker] for of_broker in runs]
        row = [case.name]
        row += [
            f"{min(one):.{digits}f} ({statistics.median(one):.{digits}f}) {cost_unit}"
            for one in costs
        ]
        row.append(ratio([min(one) for one in costs]))
        library = self._library.get(case.name)
        row.append("" if library is None else f"{library:.3f} {library / min(costs[0]):.0%}")
        row += [f"{max(run.rate for run in one):,.0f} {rate_unit}" for one in runs]
        if runs[0][0].p50_ms:
            row += [
                f"{min(run.p50_ms for run in one):.2f} / {min(run.p99_ms for run in one):.2f} ms"
                for one in runs
            ]
        return row

    def _write(self, line: dict[str, object]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def ratio(values: list[float | None] | list[float]) -> str:
    """Ours over Kafka's; nothing when one of them is missing."""
    if len(values) != 2 or not values[0] or not values[1]:
        return ""
    return f"{values[0] / values[1]:.2f}"
