"""The pipeline under kills, at length: what goes in comes out exactly once."""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

# The pipeline and its ordeal are the tests' own.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from rig.apache_kafka.jars import fetched_jars
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware
from rig.failover.killed_node import KilledNode, Strike, open_transactions, schedule
from rig.failover.network_ordeal import Cut
from rig.failover.networked import cluster_on, enter_namespaces, open_network
from rig.pipeline.kinds import PYTHON_WORKERS, java_worker, python_worker
from rig.pipeline.ordeal import NODE_SETTINGS, Outcome, Plan, Progress, endure
from rig.pipeline.stream import SINK, SOURCE
from rig.serve import ServedNode

JAVA = "java"
CLIENTS = (*PYTHON_WORKERS, JAVA)
LINE_EVERY_SECONDS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--app-kills", type=int, default=30, help="SIGKILLs of the application")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="one, or a cluster")
    parser.add_argument("--node-kills", type=int, default=10, help="SIGKILLs of nodes")
    parser.add_argument("--cuts", type=int, default=0, help="network partitions, with --nodes 3")
    parser.add_argument("--stalls", type=int, default=3, help="SIGSTOPs for longer than a session")
    parser.add_argument("--client", choices=CLIENTS, default=CLIENTS[0])
    parser.add_argument("--workers", type=int, default=2, help="processes of the application")
    parser.add_argument("--fsync", choices=["on", "off"], default="off", help="penstock.ack.fsync")
    parser.add_argument("--seed", type=int, default=1, help="the order of the kills")


def exactly_once(chosen: argparse.Namespace, folder: Path) -> bool:
    if chosen.cuts:
        if chosen.nodes == 1:
            raise SystemExit("--cuts needs --nodes 3")
        reason = enter_namespaces([sys.executable, *sys.argv])
        if reason is not None:
            print(f"relays in the place of network namespaces: {reason}")
    plan = Plan(
        records=chosen.records,
        worker_kills=chosen.app_kills,
        node_kills=chosen.node_kills + chosen.cuts,
        stalls=chosen.stalls,
        seed=chosen.seed,
        commands=[worker_of(chosen.client, folder)] * chosen.workers,
    )
    fsync = "true" if chosen.fsync == "on" else "false"
    settings = {**NODE_SETTINGS, "penstock.ack.fsync": fsync}
    if chosen.nodes > 1:
        strikes = schedule(chosen.seed, kills=chosen.node_kills, cuts=chosen.cuts)
        outcome, fault = on_a_cluster(plan, settings, folder, strikes=strikes)
    else:
        outcome, fault = on_a_node(plan, settings, folder)
    show(chosen, outcome)
    if fault is not None:
        print(f"FAULT: {fault}")
    return fault is None and not outcome.faults


def on_a_node(plan: Plan, settings: dict[str, str], folder: Path) -> tuple[Outcome, str | None]:
    node = ServedNode(data=folder / "data", settings=settings)
    node.start()
    try:
        outcome = endure(node, plan, folder=folder, told=Lines().tell)
        stopped = node.stop()
    finally:
        if node.running:
            node.kill()
    return outcome, f"the node ended with status {stopped}" if stopped else None


def on_a_cluster(
    plan: Plan, settings: dict[str, str], folder: Path, *, strikes: Sequence[Strike]
) -> tuple[Outcome, str | None]:
    """Each strike hits the leader of something: a partition, the group, transactions, metadata."""
    with ExitStack() as opened:
        has_cuts = any(isinstance(one, Cut) for one in strikes)
        network = opened.enter_context(closing(open_network())) if has_cuts else None
        settings = {**BRISK_SESSIONS, **settings}
        cluster = cluster_on(network, PenstockSoftware(), folder, settings=settings)
        opened.enter_context(cluster)
        cluster.start()
        node = KilledNode(
            cluster, topics=(SOURCE, SINK), seed=plan.seed, network=network, strikes=strikes
        )
        outcome = endure(node, plan, folder=folder, told=Lines().tell)
        for what, count in node.struck.most_common():
            print(f"{count:4} times {what.value}")
        left = open_transactions(cluster)
    faults = [*node.faults, *([f"transactions are open: {left}"] if left else [])]
    return outcome, "; ".join(faults) or None


def worker_of(client: str, folder: Path) -> list[str]:
    if client == JAVA:
        return java_worker(jars=fetched_jars(), folder=folder)
    return python_worker(client)


class Lines:
    """A line that changes on a terminal, and now and then one elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._next = 0.0

    def tell(self, progress: Progress) -> None:
        if self._live:
            print(f"\r{progress.line}", end="", flush=True)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY_SECONDS
            print(progress.line, flush=True)


def show(chosen: argparse.Namespace, outcome: Outcome) -> None:
    judgement, progress = outcome.judgement, outcome.progress
    print(
        f"\n{chosen.client}, {chosen.workers} processes, fsync acks {chosen.fsync}, "
        f"seed {chosen.seed}: {outcome.seconds:.0f} s"
    )
    for what, count in (
        ("records in", chosen.records),
        ("records out", judgement.read),
        ("duplicates", judgement.duplicates),
        ("missing", judgement.missing),
        ("out of order", judgement.out_of_order),
        ("foreign", judgement.foreign),
        ("seen before the commit", judgement.before_commit),
        ("seen otherwise at the end", judgement.seen_otherwise),
        ("not committed by the group", outcome.uncommitted),
        ("application killed", progress.worker_kills),
        ("application ended by itself", progress.ended),
        ("application stalled", progress.stalls),
        ("node killed", progress.node_kills),
        ("commits asked for", outcome.commits),
        ("aborts asked for", outcome.aborts),
        ("records never committed", outcome.hidden),
    ):
        print(f"{what:28} {count:>9,}")
    for error in outcome.errors[:20]:
        print(f"told: {error}")
    print(f"verdict: {'NOT ' if outcome.faults else ''}exactly once")
