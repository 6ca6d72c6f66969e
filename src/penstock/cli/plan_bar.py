"""A bar of how far a plan is, where somebody looks; into a pipe or a file nothing is shown."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from penstock.cli.show import OutputConsole


@contextmanager
def plan_bar() -> Iterator[Callable[[float], None]]:
    """To be called with the share that is done, by any thread. The bar is gone afterwards."""
    console = OutputConsole(stderr=True)
    if not console.is_terminal:
        yield lambda done: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("planning", total=1.0)
        yield lambda done: progress.update(task, completed=done)
