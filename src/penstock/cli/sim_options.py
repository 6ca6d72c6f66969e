"""Options of `penstock sim` that several of its commands have."""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TypeVar

import click

from penstock.sim.workers import SeedBudget

Command = TypeVar("Command", bound=Callable[..., None])
Kind = TypeVar("Kind", bound=Enum)

SEEDS = 1_000  # unless a number or a time is given
CLUSTER_NODES_MAX = 9


def campaign_options(command: Command) -> Command:
    """Which seeds to try, for how long, and on how many cores."""
    for option in (
        click.option("--workers", type=click.IntRange(min=1),
                     help="Processes; one a core by default."),
        click.option("--start", default=0, show_default=True, type=click.IntRange(min=0),
                     help="The first seed."),
        click.option("--minutes", type=click.FloatRange(min=0, min_open=True),
                     help="Try seeds until so many minutes are over, or until --seeds are done."),
        click.option("--seeds", type=click.IntRange(min=1),
                     help=f"How many to try; {SEEDS:,} unless --minutes are given."),
    ):  # fmt: skip
        command = option(command)
    return command


def seed_budget(*, seeds: int | None, minutes: float | None, start: int) -> SeedBudget:
    if seeds is None and minutes is None:
        seeds = SEEDS
    return SeedBudget(start=start, seeds=seeds, seconds=None if minutes is None else minutes * 60)


nodes_option = click.option(
    "--nodes",
    type=click.IntRange(min=1, max=CLUSTER_NODES_MAX),
    help="A cluster of so many nodes, instead of a node alone.",
)
replicas_option = click.option(
    "--replicas",
    type=click.IntRange(min=1, max=CLUSTER_NODES_MAX),
    help="With --nodes: replicas of each partition; by default 3, or as many as there are nodes.",
)
faults_option = click.option(
    "--faults",
    metavar="KIND,...",
    help="Have these kinds of fault alone, by the names that the figures have.",
)


def named_faults(text: str | None, known: Iterable[Kind]) -> tuple[Kind, ...] | None:
    """The kinds that are named, with dashes or spaces; None where no choice was made."""
    if text is None:
        return None
    by_name = {_plain(str(kind.value)): kind for kind in known}
    chosen = []
    for name in text.split(","):
        kind = by_name.get(_plain(name))
        if kind is None:
            names = ", ".join(str(kind.value) for kind in by_name.values())
            raise click.UsageError(f"--faults: there is no {name.strip()!r} here, but: {names}")
        chosen.append(kind)
    return tuple(dict.fromkeys(chosen))


def _plain(name: str) -> str:
    return " ".join(name.lower().replace("-", " ").split())
