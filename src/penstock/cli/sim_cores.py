"""`penstock sim quorum` and `replication`: the pure cores alone, on messages that are values.

Very many seeds: elections and the metadata log (`penstock.sim.quorum.run`), and the replicas of one
partition (`penstock.sim.replication.run`). Each has a `-replay`, which runs one seed again.
"""

import time

import click
from rich.console import Console

from penstock.cli.options import json_option
from penstock.cli.show import OutputConsole
from penstock.cli.sim_figures import PromiseBroken, judge_campaign, show_figures
from penstock.cli.sim_options import campaign_options, seed_budget
from penstock.cli.sim_progress import shown
from penstock.sim.quorum.campaign import Tally, quorum_campaign
from penstock.sim.quorum.flaws import Flaw
from penstock.sim.quorum.run import run_seed as run_quorum_seed
from penstock.sim.replication.campaign import ReplicationTally, replication_campaign
from penstock.sim.replication.flaws import ReplicationFlaw
from penstock.sim.replication.run import run_seed as run_replication_seed

quorum_flaw_option = click.option(
    "--flaw",
    type=click.Choice([flaw.value for flaw in Flaw]),
    help="Plant this bug in every replica: the simulation is to find it.",
)
replication_flaw_option = click.option(
    "--flaw",
    type=click.Choice([flaw.value for flaw in ReplicationFlaw]),
    help="Plant this bug in every node: the simulation is to find it.",
)


@click.command()
@campaign_options
@quorum_flaw_option
@json_option
def quorum(
    seeds: int | None,
    minutes: float | None,
    start: int,
    workers: int | None,
    flaw: str | None,
    as_json: bool,
) -> None:
    """Try many seeds of the quorum alone: elections and the metadata log, without brokers.

    With --flaw, stop at the first seed that finds the planted bug; exit non-zero when none does.
    """
    console = OutputConsole(stderr=as_json)
    tally = Tally()
    began = time.monotonic()
    budget = seed_budget(seeds=seeds, minutes=minutes, start=start)
    planted = None if flaw is None else Flaw(flaw)
    tried = quorum_campaign(budget, flaw=planted, workers=workers)
    for verdict in shown(tried, budget, OutputConsole(stderr=True)):
        tally.add(verdict)
        if planted is not None and verdict.violation is not None:
            break
    tally.failed.sort()
    figures: dict[str, object] = {
        "seeds": tally.seeds,
        "start": start,
        "failed": tally.failed,
        "faults": dict(sorted(tally.faults.items())),
        "leaders": tally.leaders,
        "acked_records": tally.acked,
        "snapshots_installed": tally.snapshots_installed,
        "steps": tally.steps,
        "virtual_seconds": tally.virtual_ms // 1000,
        "calm_to_leader_ms": {
            f"p{percent}": tally.leader_ms_percentile(percent) for percent in (50, 90, 99, 100)
        },
        "seconds": round(time.monotonic() - began, 1),
    }
    show_figures(figures, console, as_json=as_json)
    _judge(tally, flaw, console, replay="quorum-replay")


@click.command()
@click.argument("seed", type=click.IntRange(min=0))
@quorum_flaw_option
def quorum_replay(seed: int, flaw: str | None) -> None:
    """Run one seed of the quorum again and show what happened, by virtual time."""
    planted = None if flaw is None else Flaw(flaw)
    outcome = run_quorum_seed(seed, flaw=planted, log_lines=True)
    for line in outcome.lines:
        click.echo(line)
    figures = outcome.figures
    click.echo(
        f"seed {seed}: {figures.steps} steps, {figures.leaders} leaders, {figures.acked} acks,"
        f" {figures.virtual_ms} ms of virtual time"
    )
    if outcome.violation is not None:
        raise PromiseBroken(f"seed {seed}: {outcome.violation}")


@click.command()
@campaign_options
@replication_flaw_option
@json_option
def replication(
    seeds: int | None,
    minutes: float | None,
    start: int,
    workers: int | None,
    flaw: str | None,
    as_json: bool,
) -> None:
    """Try many seeds of one replicated partition alone: three nodes, elections, crashes.

    With --flaw, stop at the first seed that finds the planted bug; exit non-zero when none does.
    """
    console = OutputConsole(stderr=as_json)
    tally = ReplicationTally()
    began = time.monotonic()
    budget = seed_budget(seeds=seeds, minutes=minutes, start=start)
    planted = None if flaw is None else ReplicationFlaw(flaw)
    tried = replication_campaign(budget, flaw=planted, workers=workers)
    for verdict in shown(tried, budget, OutputConsole(stderr=True)):
        tally.add(verdict)
        if planted is not None and verdict.violation is not None:
            break
    tally.failed.sort()
    figures: dict[str, object] = {
        "seeds": tally.seeds,
        "start": start,
        "failed": tally.failed,
        "faults": dict(sorted(tally.faults.items())),
        "leaders": tally.leaders,
        "acked_records": tally.acked,
        "truncations": tally.truncations,
        "elections_with_loss": tally.forgiven,
        "steps": tally.steps,
        "virtual_seconds": tally.virtual_ms // 1000,
        "calm_to_healed_ms_max": tally.calm_ms_max,
        "seconds": round(time.monotonic() - began, 1),
    }
    show_figures(figures, console, as_json=as_json)
    _judge(tally, flaw, console, replay="replication-replay")


@click.command()
@click.argument("seed", type=click.IntRange(min=0))
@replication_flaw_option
def replication_replay(seed: int, flaw: str | None) -> None:
    """Run one seed of a replicated partition again and show what happened, by virtual time."""
    planted = None if flaw is None else ReplicationFlaw(flaw)
    outcome = run_replication_seed(seed, flaw=planted, log_lines=True)
    for line in outcome.lines:
        click.echo(line)
    figures = outcome.figures
    click.echo(
        f"seed {seed}: {figures.steps} steps, {figures.leaders} leaders, {figures.acked} acks,"
        f" {figures.truncations} truncations, {figures.virtual_ms} ms of virtual time"
    )
    if outcome.violation is not None:
        raise PromiseBroken(f"seed {seed}: {outcome.violation}")


def _judge(
    tally: Tally | ReplicationTally, flaw: str | None, console: Console, *, replay: str
) -> None:
    again = f"penstock sim {replay} {tally.failed[0] if tally.failed else ''}"
    if flaw is not None:
        again += f" --flaw {flaw}"
    judge_campaign(tally.failed, tally.seeds, flaw=flaw, console=console, replay=again)
