"""`--watch`: a view of a cluster, repeated until Ctrl-C.

    terminal        each view takes the place of the one before, on a screen of its own; q ends it
    pipe or file    one view after the other
    --json          one value a line

A first view that fails ends the command, as it does without `--watch`. After that, a cluster that
does not answer is reported, and asked again.
"""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from datetime import datetime
from functools import partial
from typing import TypeVar

import click
from rich.text import Text

from penstock.cli import status
from penstock.cli.connect import until_interrupted, with_cluster
from penstock.cli.escape import escaped
from penstock.cli.options import Command
from penstock.cli.show import say
from penstock.cli.top_screen import Screen, full_screen
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError

View = TypeVar("View")
Look = Callable[[Cluster], Awaitable[View]]
Show = Callable[[View], None]  # prints it

KEYS = "q or Ctrl-C ends"
AWAY_SECONDS = 1.0  # the shortest pause before a cluster that did not answer is asked again

watch_option = click.option(
    "--watch", is_flag=True, help="Repeat it until Ctrl-C; with --json one line each time."
)
interval_option = click.option(
    "--interval",
    "seconds",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long --watch waits after each view.",
)


def watch_options(command: Command) -> Command:
    return watch_option(interval_option(command))


def show_view(
    bootstrap: str,
    look: Look[View],
    show: Show[View],
    *,
    every_seconds: float | None,
    redrawn: bool = True,
) -> None:
    """Once if `every_seconds` is None. Views that are not `redrawn` follow each other on a terminal
    too, as JSON does.
    """
    if every_seconds is None:
        show(with_cluster(bootstrap, look))
        return
    work = _on_screen if redrawn and sys.stdout.isatty() else _in_turn
    if not with_cluster(bootstrap, partial(work, look=look, show=show, seconds=every_seconds)):
        sys.exit(status.INTERRUPTED)


async def _in_turn(cluster: Cluster, *, look: Look[View], show: Show[View], seconds: float) -> bool:
    """False when Ctrl-C ended it, as it always does."""

    async def again() -> None:
        shown = await look(cluster)
        while True:
            show(shown)
            sys.stdout.flush()
            shown = await _next(
                cluster, look, seconds, lambda away: say(f"the cluster is away: {away}", err=True)
            )

    return await until_interrupted(again())


async def _on_screen(
    cluster: Cluster, *, look: Look[View], show: Show[View], seconds: float
) -> bool:
    """Until a key ends it; False when Ctrl-C did."""

    async def again(screen: Screen) -> None:
        shown = first
        while True:
            draw = partial(_draw, screen, _printed(show, shown), seconds)
            draw(None)
            shown = await _next(cluster, look, seconds, draw)

    async def until_key(screen: Screen) -> None:
        async with asyncio.TaskGroup() as tasks:
            showing = tasks.create_task(again(screen))
            await screen.ended.wait()
            showing.cancel()

    first = await look(cluster)
    with full_screen() as screen:
        return await until_interrupted(until_key(screen))


async def _next(
    cluster: Cluster, look: Look[View], seconds: float, tell: Callable[[ClientError], None]
) -> View:
    while True:
        await asyncio.sleep(seconds)
        try:
            return await look(cluster)
        except ClientError as error:
            tell(error)
        seconds = max(seconds, AWAY_SECONDS)


class _Terminal(io.StringIO):
    """Takes what is printed, in the form that a terminal would get."""

    def isatty(self) -> bool:
        return True


def _printed(show: Show[View], view: View) -> str:
    with redirect_stdout(_Terminal()) as taken:
        show(view)
    return taken.getvalue()


def _draw(screen: Screen, lines: str, seconds: float, away: ClientError | None) -> None:
    pause = f"every {seconds:g} s" if seconds else "repeated"
    head = f"{datetime.now():%H:%M:%S}, {pause}; {KEYS}\n"
    if away is not None:
        head += f"the cluster is away: {escaped(str(away))}\n"
    drawing = Text(head, style="dim") + Text.from_ansi(lines)
    screen.show(lambda width, height: drawing)
