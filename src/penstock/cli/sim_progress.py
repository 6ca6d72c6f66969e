"""How far a campaign of simulations has come: a bar on a terminal, elsewhere a line now and then.

A run in the background can be watched by what it writes: seeds done, faults and acks so far.
"""

import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

LINE_EVERY_S = 30.0


class Judged(Protocol):
    """What became of a seed."""

    @property
    def seed(self) -> int: ...

    @property
    def violation(self) -> str | None: ...

    @property
    def fault_count(self) -> int: ...

    @property
    def acked(self) -> int: ...


Verdicts = TypeVar("Verdicts", bound=Judged)


def shown(
    tried: Iterator[Verdicts],
    seeds: int,
    console: Console,
    *,
    now_s: Callable[[], float] = time.monotonic,
) -> Iterator[Verdicts]:
    """The verdicts as they come; what is shown is how many there are, and each bad one."""
    lines = ProgressLines(seeds, now_s)
    with progress_bar(console) as progress:
        bar = progress.add_task("seeds", total=seeds)
        for verdict in tried:
            progress.advance(bar)
            if verdict.violation is not None:
                console.print(f"[red]seed {verdict.seed}[/red] {verdict.violation}", soft_wrap=True)
            line = lines.add(verdict)
            if line is not None and not console.is_terminal:
                console.print(line, soft_wrap=True, highlight=False)
            yield verdict


class ProgressLines:
    def __init__(self, seeds: int, now_s: Callable[[], float]) -> None:
        self._seeds = seeds
        self._now_s = now_s
        self._began_s = self._last_s = now_s()
        self._done = self._failed = self._faults = self._acked = 0

    def add(self, verdict: Judged) -> str | None:
        """A line when the last one is old enough."""
        self._done += 1
        self._failed += verdict.violation is not None
        self._faults += verdict.fault_count
        self._acked += verdict.acked
        now_s = self._now_s()
        if now_s - self._last_s < LINE_EVERY_S:
            return None
        self._last_s = now_s
        return (
            f"seeds {self._done} of {self._seeds}, failed {self._failed}, faults {self._faults},"
            f" acks {self._acked}, seconds {now_s - self._began_s:.0f}"
        )


def progress_bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
