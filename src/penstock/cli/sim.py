"""`penstock sim`: a real node in a simulated world that crashes it; see `penstock.sim.run`.

`run` tries many seeds and names those that broke a promise; `replay` runs one again, the very
same, and shows what happened. With `--nodes` it is a cluster; see `penstock.sim.cluster.run`.
`quorum` and `quorum-replay` do so with the replicas of the metadata log alone, on messages that are
values (`penstock.sim.quorum.run`), `replication` and `replication-replay` with those of a partition
(`penstock.sim.replication.run`).
"""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import click
from rich.console import Console

from penstock.cli.command_group import CommandGroup
from penstock.cli.options import json_option
from penstock.cli.show import print_json
from penstock.cli.sim_progress import progress_bar, shown
from penstock.model.error import PenstockError
from penstock.sim.campaign import Verdict, campaign
from penstock.sim.cluster.campaign import ClusterVerdict, cluster_campaign
from penstock.sim.cluster.flaws import ClusterFlaw
from penstock.sim.cluster.run import run_seed as run_cluster_seed
from penstock.sim.crash_points import small_transactions
from penstock.sim.host import Crash
from penstock.sim.quorum.campaign import Tally, quorum_campaign
from penstock.sim.quorum.flaws import Flaw
from penstock.sim.quorum.run import run_seed as run_quorum_seed
from penstock.sim.replication.campaign import ReplicationTally, replication_campaign
from penstock.sim.replication.flaws import ReplicationFlaw
from penstock.sim.replication.run import run_seed as run_replication_seed
from penstock.sim.run import run_seed
from penstock.sim.seed_figures import WORTH, distribution

CLUSTER_NODES_MAX = 9


class PromiseBroken(PenstockError):
    """A simulation found something wrong."""


Command = TypeVar("Command", bound=Callable[..., None])


def campaign_options(command: Command) -> Command:
    """Which seeds to try, and on how many cores."""
    for option in (
        click.option("--workers", type=click.IntRange(min=1),
                     help="Processes; one a core by default."),
        click.option("--start", default=0, show_default=True, type=click.IntRange(min=0),
                     help="The first seed."),
        click.option("--seeds", default=1_000, show_default=True, type=click.IntRange(min=1),
                     help="How many to try."),
    ):  # fmt: skip
        command = option(command)
    return command


flaw_option = click.option(
    "--flaw",
    type=click.Choice([flaw.value for flaw in Flaw]),
    help="Plant this bug in every replica: the simulation is to find it.",
)

replication_flaw_option = click.option(
    "--flaw",
    type=click.Choice([flaw.value for flaw in ReplicationFlaw]),
    help="Plant this bug in every node: the simulation is to find it.",
)
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
cluster_flaw_option = click.option(
    "--flaw",
    type=click.Choice([flaw.value for flaw in ClusterFlaw]),
    help="With --nodes: plant this bug in every node, which the simulation is to find.",
)


@click.group(cls=CommandGroup)
def sim() -> None:
    """Run a node in a simulated world of crashes and faults, from a seed."""


@sim.command()
@campaign_options
@nodes_option
@replicas_option
@cluster_flaw_option
@json_option
def run(
    seeds: int,
    start: int,
    workers: int | None,
    nodes: int | None,
    replicas: int | None,
    flaw: str | None,
    as_json: bool,
) -> None:
    """Try many seeds; exit non-zero when one of them breaks a promise.

    With --flaw, stop at the first seed that finds the planted bug; exit non-zero when none does.
    """
    console = Console(stderr=as_json)
    tried = range(start, start + seeds)
    _refuse_options_of_clusters(nodes, replicas, flaw)
    if nodes is None:
        _run_node(tried, workers, console, as_json=as_json)
    else:
        planted = None if flaw is None else ClusterFlaw(flaw)
        ran = cluster_campaign(tried, nodes=nodes, replicas=replicas, flaw=planted, workers=workers)
        again = f"--nodes {nodes}" + ("" if replicas is None else f" --replicas {replicas}")
        _run_cluster(ran, tried, planted, console, again=again, as_json=as_json)


@sim.command()
@click.argument("seed", type=click.IntRange(min=0))
@nodes_option
@replicas_option
@cluster_flaw_option
def replay(seed: int, nodes: int | None, replicas: int | None, flaw: str | None) -> None:
    """Run one seed again and show what happened, by virtual time."""
    _refuse_options_of_clusters(nodes, replicas, flaw)
    if nodes is None:
        outcome = run_seed(seed, log_lines=True)
        trace, violation = outcome.trace, outcome.violation
        figures = f"{outcome.lives} lives, {outcome.acks} acks, {outcome.virtual_ms} ms"
    else:
        planted = None if flaw is None else ClusterFlaw(flaw)
        of_cluster = run_cluster_seed(
            seed, nodes=nodes, replicas=replicas, flaw=planted, log_lines=True
        )
        trace, violation = of_cluster.trace, of_cluster.violation
        found = of_cluster.figures
        figures = (
            f"{found.fault_count} faults, {found.leader_changes} changes of leader,"
            f" {found.acked} acks, {found.virtual_ms} ms"
        )
    for line in trace.lines:
        click.echo(str(line))
    click.echo(f"seed {seed}: {figures} of virtual time, trace {trace.hash}")
    if violation is not None:
        raise PromiseBroken(f"seed {seed}: {violation}")


@sim.command()
@campaign_options
@flaw_option
@json_option
def quorum(seeds: int, start: int, workers: int | None, flaw: str | None, as_json: bool) -> None:
    """Try many seeds of the quorum alone: elections and the metadata log, without brokers.

    With --flaw, stop at the first seed that finds the planted bug; exit non-zero when none does.
    """
    console = Console(stderr=as_json)
    tally = Tally()
    began = time.monotonic()
    planted = None if flaw is None else Flaw(flaw)
    tried = quorum_campaign(range(start, start + seeds), flaw=planted, workers=workers)
    for verdict in shown(tried, seeds, console):
        tally.add(verdict)
        if planted is not None and verdict.violation is not None:
            break
    tally.failed.sort()
    figures: dict[str, object] = {
        "seeds": tally.seeds,
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
    _show_figures(figures, console, as_json=as_json)
    _judge(tally, flaw, console, replay="quorum-replay")


@sim.command()
@click.argument("seed", type=click.IntRange(min=0))
@flaw_option
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


@sim.command()
@campaign_options
@replication_flaw_option
@json_option
def replication(
    seeds: int, start: int, workers: int | None, flaw: str | None, as_json: bool
) -> None:
    """Try many seeds of one replicated partition alone: three nodes, elections, crashes.

    With --flaw, stop at the first seed that finds the planted bug; exit non-zero when none does.
    """
    console = Console(stderr=as_json)
    tally = ReplicationTally()
    began = time.monotonic()
    planted = None if flaw is None else ReplicationFlaw(flaw)
    tried = replication_campaign(range(start, start + seeds), flaw=planted, workers=workers)
    for verdict in shown(tried, seeds, console):
        tally.add(verdict)
        if planted is not None and verdict.violation is not None:
            break
    tally.failed.sort()
    figures: dict[str, object] = {
        "seeds": tally.seeds,
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
    _show_figures(figures, console, as_json=as_json)
    _judge(tally, flaw, console, replay="replication-replay")


@sim.command()
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
    with progress_bar(Console()) as progress:
        for point in progress.track(points, description="crashes"):
            violation = run_seed(seed, scenario, crash_point=point).violation
            if violation is not None:
                failed += 1
                progress.console.print(f"[red]{point}[/red] {violation}", soft_wrap=True)
    click.echo(f"crashes {len(points)}, failed {failed}")
    if failed:
        raise PromiseBroken(f"{failed} of {len(points)} crashes broke a promise")


def _judge(
    tally: Tally | ReplicationTally, flaw: str | None, console: Console, *, replay: str
) -> None:
    """A campaign on value messages is over: a planted bug was found, or no promise was broken."""
    if flaw is not None:
        if not tally.failed:
            raise PromiseBroken(f"{flaw} was not found; seeds tried: {tally.seeds}")
        console.print(f"{flaw} was found by seed {tally.failed[0]}; seeds tried: {tally.seeds}")
    elif tally.failed:
        raise PromiseBroken(
            f"{len(tally.failed)} of {tally.seeds} seeds broke a promise; see:"
            f" penstock sim {replay} {tally.failed[0]}"
        )


def _refuse_options_of_clusters(nodes: int | None, replicas: int | None, flaw: str | None) -> None:
    if nodes is None:
        for name, given in (("flaw", flaw), ("replicas", replicas)):
            if given is not None:
                raise click.UsageError(
                    f"--{name} {given} is for clusters: give --nodes, such as --nodes 3"
                )
    elif replicas is not None and replicas > nodes:
        raise click.UsageError(f"--replicas {replicas} needs as many nodes: there are {nodes}")


def _run_node(tried: range, workers: int | None, console: Console, *, as_json: bool) -> None:
    began = time.monotonic()
    verdicts: list[Verdict] = list(shown(campaign(tried, workers=workers), len(tried), console))
    failed = sorted(verdict.seed for verdict in verdicts if verdict.violation is not None)
    figures: dict[str, object] = {
        "seeds": len(tried),
        "failed": failed,
        "crashes_and_stops": sum(verdict.lives - 1 for verdict in verdicts),
        "acked_records": sum(verdict.acks for verdict in verdicts),
        "committed_transactions": sum(verdict.commits for verdict in verdicts),
        "virtual_seconds": sum(verdict.virtual_ms for verdict in verdicts) // 1000,
        "seconds": round(time.monotonic() - began, 1),
    }
    _show_figures(figures, console, as_json=as_json)
    if failed:
        raise PromiseBroken(
            f"{len(failed)} of {len(tried)} seeds broke a promise;"
            f" see: penstock sim replay {failed[0]}"
        )


def _run_cluster(
    ran: Iterator[ClusterVerdict],
    tried: range,
    flaw: ClusterFlaw | None,
    console: Console,
    *,
    again: str,
    as_json: bool,
) -> None:
    """`again` is what a replay needs to be told."""
    began = time.monotonic()
    verdicts: list[ClusterVerdict] = []
    for verdict in shown(ran, len(tried), console):
        verdicts.append(verdict)
        if flaw is not None and verdict.violation is not None:
            break
    failed = sorted(verdict.seed for verdict in verdicts if verdict.violation is not None)
    found = [verdict.figures for verdict in verdicts]
    figures: dict[str, object] = {
        "seeds": len(verdicts),
        "failed": failed,
        "counted": sum(WORTH.reached_by(one) for one in found),
        "faults": sum(one.fault_count for one in found),
        "leader_changes": sum(one.leader_changes for one in found),
        "acked_operations": sum(one.acked for one in found),
        "virtual_seconds": sum(one.virtual_ms for one in found) // 1000,
        "seconds": round(time.monotonic() - began, 1),
    }
    if not as_json:
        console.print(distribution(found), highlight=False, soft_wrap=True)
    _show_figures(figures, console, as_json=as_json)
    if flaw is not None:
        if not failed:
            raise PromiseBroken(f"{flaw.value} was not found; seeds tried: {len(verdicts)}")
        console.print(f"{flaw.value} was found by seed {failed[0]}; seeds tried: {len(verdicts)}")
    elif failed:
        raise PromiseBroken(
            f"{len(failed)} of {len(tried)} seeds broke a promise;"
            f" see: penstock sim replay {failed[0]} {again}"
        )


def _show_figures(figures: dict[str, object], console: Console, *, as_json: bool) -> None:
    if as_json:
        print_json(figures)
    else:
        words = (f"{name.replace('_', ' ')} {_figure(value)}" for name, value in figures.items())
        console.print(", ".join(words))


def _figure(value: object) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name} {one}" for name, one in value.items()) + ")"
    return str(value)
