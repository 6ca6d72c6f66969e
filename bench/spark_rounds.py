"""Rounds of several ways to do the same on Spark: the clock and the CPU of each, as two tables.

Each round does all ways, one after the other, and begins with another one than the round before. A
first round warms all up and is not counted. Figures are medians with their quartiles; a ratio is
the median of the ratios of each round, so that what slows a whole round down is not in it.
"""

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path

from process_cpu import Cpu, Processes
from rich.console import Console
from rich.table import Table

GB = 1e9
WIDTH = 190


def nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to do it; only `run` is measured."""

    run: Callable[[], None]
    prepare: Callable[[], None] = nothing
    end: Callable[[], None] = nothing  # also checks what was done


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    rows: int
    value_bytes: int  # of one row
    ways: Mapping[str, Way]  # by their titles
    compared_with: Sequence[str]  # titles; each of them with those behind it
    floor: str  # a title
    little: bool = False  # so little that its time says more than a rate

    @property
    def gigabytes(self) -> float:
        return self.rows * self.value_bytes / GB


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    seconds: float
    cpu: Cpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    case: Case
    runs: dict[str, list[Run]] = field(default_factory=dict)  # by way, one for each round


def measured(case: Case, rounds: int, processes: Processes) -> Result:
    titles = list(case.ways)
    result = Result(case=case, runs={title: [] for title in titles})
    for number in range(rounds + 1):
        first = number % len(titles)
        for title in titles[first:] + titles[:first]:
            run = one_run(case.ways[title], processes)
            if number > 0:
                result.runs[title].append(run)
    return result


def one_run(way: Way, processes: Processes) -> Run:
    way.prepare()
    before, began = processes.look(), time.perf_counter()
    way.run()
    seconds = time.perf_counter() - began
    run = Run(seconds=seconds, cpu=processes.look().since(before))
    way.end()
    return run


def keep(result: Result, output: Path | None) -> None:
    if output is not None:
        with output.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines(result))


def show(results: Sequence[Result], *, title: str) -> None:
    console = Console(width=WIDTH, highlight=False)
    console.print(rates(results, title))
    console.print(ledger(results))


def rates(results: Sequence[Result], title: str) -> Table:
    table = Table(title=title)
    for heading in ("case", "way", "MB/s", "1,000 rows/s", "ms", "times as fast as"):
        table.add_column(heading, justify="left" if heading in ("case", "way") else "right")
    for result in results:
        case = result.case
        for way, runs in result.runs.items():
            seconds = [run.seconds for run in runs]
            rate = [case.gigabytes * 1000 / one for one in seconds]
            rows = [case.rows / one / 1000 for one in seconds]
            table.add_row(
                case.name,
                way,
                "" if case.little else quartiles(rate),
                "" if case.little else quartiles(rows),
                quartiles([one * 1000 for one in seconds]),
                "; ".join(ratios(result, way)),
            )
        table.add_section()
    return table


def ratios(result: Result, way: str) -> list[str]:
    others = list(result.case.compared_with)
    if way in others:
        others = others[others.index(way) + 1 :]
    found = []
    for other in others:
        if other in result.runs and way != result.case.floor:
            pairs = zip(result.runs[other], result.runs[way], strict=True)
            found.append(f"{other} {quartiles([its.seconds / own.seconds for its, own in pairs])}")
    return found


def ledger(results: Sequence[Result]) -> Table:
    """Where the CPU of each GB goes; of little data, of each query."""
    table = Table(title="CPU seconds a GB of values (of little data: ms of CPU a query), medians")
    headings = ("JVM: tasks", "compiler, GC", "the rest", "Python", "node", "total", "above floor")
    for heading in ("case", "way", *headings):
        table.add_column(heading, justify="left" if heading in ("case", "way") else "right")
    for result in results:
        floor = costs(result, result.case.floor)
        for way in result.runs:
            own = costs(result, way)
            above = "" if way == result.case.floor else f"{own[-1] - floor[-1]:.2f}"
            table.add_row(result.case.name, way, *(f"{one:.2f}" for one in own), above)
        table.add_section()
    return table


def costs(result: Result, way: str) -> list[float]:
    """The columns of a ledger, and their total: medians of all rounds, each by itself."""
    case = result.case
    unit = 1000 if case.little else 1 / case.gigabytes
    columns = zip(*((*astuple(run.cpu), run.cpu.total) for run in result.runs[way]), strict=True)
    return [statistics.median(column) * unit for column in columns]


def quartiles(values: Sequence[float]) -> str:
    """The median, and the quartiles where there are enough values to have some."""
    median = statistics.median(values)
    digits = 2 if median < 10 else 1 if median < 100 else 0
    if len(values) < 3:
        return f"{median:,.{digits}f}"
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{median:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def lines(result: Result) -> list[dict[str, object]]:
    case = result.case
    about = {"case": case.name, "rows": case.rows, "value_bytes": case.value_bytes}
    return [
        {**about, "way": way, "round": number, **asdict(run)}
        for way, runs in result.runs.items()
        for number, run in enumerate(runs, start=1)
    ]
