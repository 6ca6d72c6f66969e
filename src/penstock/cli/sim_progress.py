"""How far a campaign of simulations has come: a bar on a terminal, elsewhere a line now and then.

It is written to standard error, so that a run in the background can be watched: seeds done, virtual
hours, violations, faults and acks so far. Ctrl-C ends a campaign, not the command, which shows the
figures so far.
"""

import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from penstock.sim.workers import SeedBudget

LINE_EVERY_S = 30.0


class Judged(Protocol):
    """What became of a seed."""

    @property
    def seed(self) -> int: ...

    @property
    def violation(self) -> str | None: ...

    @property
    def virtual_ms(self) -> int: ...

    @property
    def fault_count(self) -> int: ...

    @property
    def acked(self) -> int: ...


Verdicts = TypeVar("Verdicts", bound=Judged)


def shown(
    tried: Iterator[Verdicts],
    budget: SeedBudget,
    console: Console,
    *,
    now_s: Callable[[], float] = time.monotonic,
) -> Iterator[Verdicts]:
    """The verdicts as they come, up to a Ctrl-C; what is shown is how many there are, and each bad
    one.
    """
    so_far = SoFar(budget, now_s)
    with _campaign_bar(console) as progress:
        bar = progress.add_task(so_far.summary, total=1.0)
        try:
            for verdict in tried:
                so_far.add(verdict)
                progress.update(bar, completed=so_far.share, description=so_far.summary)
                if verdict.violation is not None:
                    text = f"[red]seed {verdict.seed}[/red] {escape(verdict.violation)}"
                    console.print(text, soft_wrap=True)
                if so_far.line_is_due() and not console.is_terminal:
                    console.print(so_far.line, soft_wrap=True, highlight=False)
                yield verdict
        except KeyboardInterrupt:
            console.print("interrupted: the figures are those of the seeds until now")


class SoFar:
    """What the seeds that are done add up to."""

    def __init__(self, budget: SeedBudget, now_s: Callable[[], float]) -> None:
        self._budget = budget
        self._now_s = now_s
        self._began_s = self._last_s = self._at_s = now_s()
        self._done = self._failed = self._virtual_ms = self._faults = self._acked = 0

    def add(self, verdict: Judged) -> None:
        self._done += 1
        self._failed += verdict.violation is not None
        self._virtual_ms += verdict.virtual_ms
        self._faults += verdict.fault_count
        self._acked += verdict.acked
        self._at_s = self._now_s()

    def line_is_due(self) -> bool:
        """Whether the last one is old enough."""
        due = self._at_s - self._last_s >= LINE_EVERY_S
        if due:
            self._last_s = self._at_s
        return due

    @property
    def summary(self) -> str:
        seeds, hours = self._budget.seeds, self._virtual_ms / 3_600_000
        of_all = "" if seeds is None else f" of {seeds}"
        return f"seeds {self._done}{of_all}, virtual hours {hours:.2f}, violations {self._failed}"

    @property
    def line(self) -> str:
        seconds = f"seconds {self._at_s - self._began_s:.0f}"
        if self._budget.seconds is not None:
            seconds += f" of {self._budget.seconds:.0f}"
        return f"{self.summary}, faults {self._faults}, acks {self._acked}, {seconds}"

    @property
    def share(self) -> float:
        """Of the campaign, by seeds or by time, whichever ends it first."""
        shares = [0.0]
        if self._budget.seeds is not None:
            shares.append(self._done / self._budget.seeds)
        if self._budget.seconds is not None:
            shares.append((self._at_s - self._began_s) / self._budget.seconds)
        return min(1.0, max(shares))


def _campaign_bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
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
