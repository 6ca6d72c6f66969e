"""`penstock sim`: a real node in a simulated world that crashes it; see `penstock.sim.run`.

`run` tries many seeds and names those that broke a promise; `replay` runs one again, the very
same, and shows what happened. With `--nodes` it is a cluster; see `penstock.sim.cluster.run`.
The commands for the pure cores alone are in `sim_cores`, that for many partitions in `sim_scale`.
"""

import time
from collections.abc import Iterator

import click
from rich.console import Console

from penstock.cli.command_group import CommandGroup
from penstock.cli.options import json_option
from penstock.cli.show import OutputConsole
from penstock.cli.sim_cores import quorum, quorum_replay, replication, replication_replay
from penstock.cli.sim_figures import PromiseBroken, judge_campaign, show_figures
from penstock.cli.sim_options import (
    campaign_options,
    faults_option,
    named_faults,
    nodes_option,
    replicas_option,
    seed_budget,
)
from penstock.cli.sim_progress import progress_bar, shown
from penstock.cli.sim_replay import replay_cluster, replay_node
from penstock.cli.sim_scale import scale
from penstock.sim.campaign import Verdict, campaign
from penstock.sim.cluster.campaign import ClusterVerdict, cluster_campaign
from penstock.sim.cluster.flaws import ClusterFlaw
from penstock.sim.cluster.scenario import fault_kinds
from penstock.sim.crash_points import small_transactions
from penstock.sim.host import Crash
from penstock.sim.run import run_seed
from penstock.sim.scenario import FaultKind
from penstock.sim.seed_figures import WORTH, distribution
from penstock.sim.workers import SeedBudget

cluster_flaw_option = click.option(
    "--flaw",
    type=click.Choice([flaw.value for flaw in ClusterFlaw]),
    help="With --nodes: plant this bug in every node, which the simulation is to find.",
)


@click.group(cls=CommandGroup)
def sim() -> None:
    """Run a node in a simulated world of crashes and faults, from a seed."""


for _command in (quorum, quorum_replay, replication, replication_replay, scale):
    sim.add_command(_command)


@sim.command()
@campaign_options
@nodes_option
@replicas_option
@faults_option
@cluster_flaw_option
@json_option
def run(
    seeds: int | None,
    minutes: float | None,
    start: int,
    workers: int | None,
    nodes: int | None,
    replicas: int | None,
    faults: str | None,
    flaw: str | None,
    as_json: bool,
) -> None:
    """Try many seeds; exit non-zero when one of them breaks a promise.

    With --flaw, stop at the first seed that finds the planted bug; exit non-zero when none does.
    """
    console = OutputConsole(stderr=as_json)
    budget = seed_budget(seeds=seeds, minutes=minutes, start=start)
    _refuse_options_of_clusters(nodes, replicas, flaw)
    again = "" if faults is None else f" --faults '{faults}'"
    if nodes is None:
        kinds = named_faults(faults, FaultKind)
        ran_nodes = campaign(budget, kinds=kinds, workers=workers)
        _run_node(ran_nodes, budget, console, again=again, as_json=as_json)
    else:
        planted = None if flaw is None else ClusterFlaw(flaw)
        ran = cluster_campaign(
            budget,
            nodes=nodes,
            replicas=replicas,
            kinds=named_faults(faults, fault_kinds(nodes=nodes, replicas=replicas)),
            flaw=planted,
            workers=workers,
        )
        again = (
            f" --nodes {nodes}" + ("" if replicas is None else f" --replicas {replicas}") + again
        )
        again += "" if flaw is None else f" --flaw {flaw}"
        _run_cluster(ran, budget, planted, console, again=again, as_json=as_json)


@sim.command()
@click.argument("seed", type=click.IntRange(min=0))
@nodes_option
@replicas_option
@faults_option
@cluster_flaw_option
@click.option("--brief", is_flag=True,
              help="With --nodes: leave out what clients were told, and log lines.")  # fmt: skip
def replay(
    seed: int,
    nodes: int | None,
    replicas: int | None,
    faults: str | None,
    flaw: str | None,
    brief: bool,
) -> None:
    """Run one seed again and show what happened, by virtual time.

    With --nodes: who led what, which faults struck, what clients were told, and which check failed.
    """
    _refuse_options_of_clusters(nodes, replicas, flaw, brief=brief)
    if nodes is None:
        replay_node(seed, named_faults(faults, FaultKind))
    else:
        replay_cluster(
            seed,
            nodes=nodes,
            replicas=replicas,
            kinds=named_faults(faults, fault_kinds(nodes=nodes, replicas=replicas)),
            flaw=None if flaw is None else ClusterFlaw(flaw),
            brief=brief,
        )


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
    with progress_bar(OutputConsole(stderr=True)) as progress:
        for point in progress.track(points, description="crashes"):
            violation = run_seed(seed, scenario, crash_point=point).violation
            if violation is not None:
                failed += 1
                progress.console.print(f"[red]{point}[/red] {violation}", soft_wrap=True)
    click.echo(f"crashes {len(points)}, failed {failed}")
    if failed:
        raise PromiseBroken(f"{failed} of {len(points)} crashes broke a promise")


def _refuse_options_of_clusters(
    nodes: int | None, replicas: int | None, flaw: str | None, *, brief: bool = False
) -> None:
    if nodes is None:
        if brief:
            raise click.UsageError("--brief is for clusters: give --nodes, such as --nodes 3")
        for name, given in (("flaw", flaw), ("replicas", replicas)):
            if given is not None:
                raise click.UsageError(
                    f"--{name} {given} is for clusters: give --nodes, such as --nodes 3"
                )
    elif replicas is not None and replicas > nodes:
        raise click.UsageError(f"--replicas {replicas} needs as many nodes: there are {nodes}")


def _run_node(
    ran: Iterator[Verdict], budget: SeedBudget, console: Console, *, again: str, as_json: bool
) -> None:
    """`again` is what a replay needs to be told."""
    began = time.monotonic()
    verdicts = list(shown(ran, budget, OutputConsole(stderr=True)))
    failed = sorted(verdict.seed for verdict in verdicts if verdict.violation is not None)
    figures: dict[str, object] = {
        "seeds": len(verdicts),
        "start": budget.start,
        "failed": failed,
        "crashes_and_stops": sum(verdict.lives - 1 for verdict in verdicts),
        "acked_records": sum(verdict.acks for verdict in verdicts),
        "committed_transactions": sum(verdict.commits for verdict in verdicts),
        "virtual_seconds": sum(verdict.virtual_ms for verdict in verdicts) // 1000,
        "seconds": round(time.monotonic() - began, 1),
    }
    show_figures(figures, console, as_json=as_json)
    replay = f"penstock sim replay {failed[0] if failed else ''}{again}"
    judge_campaign(failed, len(verdicts), flaw=None, console=console, replay=replay)


def _run_cluster(
    ran: Iterator[ClusterVerdict],
    budget: SeedBudget,
    flaw: ClusterFlaw | None,
    console: Console,
    *,
    again: str,
    as_json: bool,
) -> None:
    """`again` is what a replay needs to be told."""
    began = time.monotonic()
    verdicts: list[ClusterVerdict] = []
    for verdict in shown(ran, budget, OutputConsole(stderr=True)):
        verdicts.append(verdict)
        if flaw is not None and verdict.violation is not None:
            break
    failed = sorted(verdict.seed for verdict in verdicts if verdict.violation is not None)
    found = [verdict.figures for verdict in verdicts]
    figures: dict[str, object] = {
        "seeds": len(verdicts),
        "start": budget.start,
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
    show_figures(figures, console, as_json=as_json)
    replay = f"penstock sim replay {failed[0] if failed else ''}{again}"
    planted = None if flaw is None else flaw.value
    judge_campaign(failed, len(verdicts), flaw=planted, console=console, replay=replay)
