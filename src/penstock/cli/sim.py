"""`penstock sim`: a real node in a simulated world that crashes it; see `penstock.sim.run`.

`run` tries many seeds and names those that broke a promise; `replay` runs one again, the very
same, and shows what happened.
"""

import time

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from penstock.cli.command_group import CommandGroup
from penstock.cli.options import json_option
from penstock.cli.show import print_json
from penstock.model.error import PenstockError
from penstock.sim.campaign import Verdict, campaign
from penstock.sim.crash_points import small_transactions
from penstock.sim.host import Crash
from penstock.sim.run import run_seed


class PromiseBroken(PenstockError):
    """A simulation found something wrong."""


@click.group(cls=CommandGroup)
def sim() -> None:
    """Run a node in a simulated world of crashes and faults, from a seed."""


@sim.command()
@click.option("--seeds", default=1_000, show_default=True, type=click.IntRange(min=1),
              help="How many to try.")  # fmt: skip
@click.option("--start", default=0, show_default=True, type=click.IntRange(min=0),
              help="The first seed.")  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), help="Processes; one a core by default.")
@json_option
def run(seeds: int, start: int, workers: int | None, as_json: bool) -> None:
    """Try many seeds; exit non-zero when one of them breaks a promise."""
    console = Console(stderr=as_json)
    verdicts: list[Verdict] = []
    began = time.monotonic()
    with _progress(console) as progress:
        bar = progress.add_task("seeds", total=seeds)
        for verdict in campaign(range(start, start + seeds), workers=workers):
            verdicts.append(verdict)
            progress.advance(bar)
            if verdict.violation is not None:
                console.print(f"[red]seed {verdict.seed}[/red] {verdict.violation}", soft_wrap=True)
    failed = sorted(verdict.seed for verdict in verdicts if verdict.violation is not None)
    figures = {
        "seeds": seeds,
        "failed": failed,
        "crashes_and_stops": sum(verdict.lives - 1 for verdict in verdicts),
        "acked_records": sum(verdict.acks for verdict in verdicts),
        "committed_transactions": sum(verdict.commits for verdict in verdicts),
        "virtual_seconds": sum(verdict.virtual_ms for verdict in verdicts) // 1000,
        "seconds": round(time.monotonic() - began, 1),
    }
    if as_json:
        print_json(figures)
    else:
        console.print(", ".join(f"{name.replace('_', ' ')} {n}" for name, n in figures.items()))
    if failed:
        raise PromiseBroken(
            f"{len(failed)} of {seeds} seeds broke a promise; see: penstock sim replay {failed[0]}"
        )


@sim.command()
@click.argument("seed", type=click.IntRange(min=0))
def replay(seed: int) -> None:
    """Run one seed again and show what happened, by virtual time."""
    outcome = run_seed(seed, log_lines=True)
    for line in outcome.lines:
        click.echo(str(line))
    click.echo(
        f"seed {seed}: {outcome.lives} lives, {outcome.acks} acks, {outcome.virtual_ms} ms of"
        f" virtual time, trace {outcome.trace_hash}"
    )
    if outcome.violation is not None:
        raise PromiseBroken(f"seed {seed}: {outcome.violation}")


@sim.command()
@click.argument("seed", type=click.IntRange(min=0))
@click.option("--stride", default=1, show_default=True, type=click.IntRange(min=1),
              help="Crash at each N-th place only.")  # fmt: skip
@click.option("--power-loss", is_flag=True, help="Not a kill: what was not synced may be lost.")
def crash(seed: int, stride: int, power_loss: bool) -> None:
    """Crash a small run of transactions at every disk operation and at every await."""
    scenario = small_transactions(seed)
    places = run_seed(seed, scenario).places
    kind = Crash.POWER_LOSS if power_loss else Crash.KILL
    points = list(places.points(crash=kind, call_stride=stride, step_stride=stride))
    failed = 0
    with _progress(Console()) as progress:
        for point in progress.track(points, description="crashes"):
            violation = run_seed(seed, scenario, crash_point=point).violation
            if violation is not None:
                failed += 1
                progress.console.print(f"[red]{point}[/red] {violation}", soft_wrap=True)
    click.echo(f"crashes {len(points)}, failed {failed}")
    if failed:
        raise PromiseBroken(f"{failed} of {len(points)} crashes broke a promise")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )
