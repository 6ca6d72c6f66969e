"""`penstock sim replay`: one seed again, as a story that a person can follow."""

from collections.abc import Iterator

import click

from penstock.cli.sim_figures import PromiseBroken
from penstock.sim.checks import promise_of
from penstock.sim.cluster.flaws import ClusterFlaw
from penstock.sim.cluster.run import ClusterOutcome
from penstock.sim.cluster.run import run_seed as run_cluster_seed
from penstock.sim.cluster.scenario import ClusterScenario
from penstock.sim.fault_plan import HostFaultKind
from penstock.sim.run import run_seed
from penstock.sim.scenario import FaultKind


def replay_node(seed: int, kinds: tuple[FaultKind, ...] | None) -> None:
    outcome = run_seed(seed, kinds=kinds, log_lines=True)
    for line in outcome.trace.lines:
        click.echo(str(line))
    click.echo(
        f"seed {seed}: {outcome.lives} lives, {outcome.acks} acks, {outcome.virtual_ms} ms of"
        f" virtual time, trace {outcome.trace.hash}"
    )
    _judge(seed, outcome.violation)


def replay_cluster(
    seed: int,
    *,
    nodes: int,
    replicas: int | None,
    kinds: tuple[HostFaultKind, ...] | None,
    flaw: ClusterFlaw | None,
    brief: bool,
) -> None:
    outcome = run_cluster_seed(
        seed, nodes=nodes, replicas=replicas, kinds=kinds, flaw=flaw, log_lines=not brief
    )
    for text in (*_beginning(outcome, flaw), *_story(outcome, brief=brief)):
        click.echo(text)
    figures = outcome.figures
    click.echo(
        f"seed {seed}: {figures.fault_count} faults, {figures.leader_changes} changes of leader,"
        f" {figures.acked} acks, {figures.virtual_ms} ms of virtual time,"
        f" trace {outcome.trace.hash}"
    )
    _judge(seed, outcome.violation)


def _beginning(outcome: ClusterOutcome, flaw: ClusterFlaw | None) -> Iterator[str]:
    """What the seed has drawn."""
    scenario = outcome.scenario
    yield f"seed {scenario.seed}: {_shape(scenario)}"
    if flaw is not None:
        yield f"planted: {flaw.value}"
    yield f"clients: {' '.join(sorted(outcome.clients))}"
    yield "settings: " + " ".join(f"{k}={v}" for k, v in sorted(scenario.node_settings.items()))
    yield "faults planned, by the time since clients started:"
    yield from (f"  {fault}" for fault in scenario.plan.faults)
    if scenario.aimed:
        yield (
            f"  {scenario.aimed:.0%} of those that take a single machine away strike the active"
            " controller instead"
        )
    yield "by virtual time:"


def _shape(scenario: ClusterScenario) -> str:
    count, replicas = scenario.nodes, scenario.replicas
    acks = "acks wait for syncs" if scenario.acks_synced else "acks do not wait for syncs"
    voters = "voters in the log" if scenario.voters_in_log else "voters in the settings"
    return (
        f"{count} {'node' if count == 1 else 'nodes'}, partitions with {replicas}"
        f" {'replica' if replicas == 1 else 'replicas'}, min.insync.replicas"
        f" {scenario.in_sync_min}, {acks}, {voters}"
    )


def _story(outcome: ClusterOutcome, *, brief: bool) -> Iterator[str]:
    """In brief: faults, who leads what, starts and ends of nodes, checks."""
    for line in outcome.trace.lines:
        if not brief or not (line.is_log or line.who in outcome.clients):
            yield str(line)


def _judge(seed: int, violation: str | None) -> None:
    if violation is None:
        click.echo("no promise was broken")
        return
    promise = promise_of(violation)
    if promise is not None:
        click.echo(f"the promise that was broken: {promise}")
    raise PromiseBroken(f"seed {seed}: {violation}")
