"""Exactly-once on three nodes that are killed and cut off, with each of four clients.

    python bench/exactly_once_ordeal.py [--client all] [--kills 50] [--cuts 10]

Kafka Streams with exactly_once_v2, transactions of confluent-kafka and of the Java client, and
Spark's queries with our sink, one after the other, each on a new cluster of three nodes in network
namespaces, RF 3, min.insync.replicas=2. In random order a node is killed (SIGKILL) and started
again a little later: the leader of a partition, a coordinator of groups, one of transactions, the
active controller, in turn; and one of them is cut off, three times of four for 1.2 to 2.2 sessions
of a broker, so that it is fenced, and else for half a session or a little more:

    nodes       from the other nodes, and not from clients
    outwards    what it sends to the other nodes is lost
    inwards     what the other nodes send to it is lost
    alone       from the other nodes and from clients: the cluster is split into one and two
    answers     what it answers to clients is lost, and half a second later it is cut off from all

Some strikes come before the last one has been overcome. In the end what was written in must have
come out, once, in the order of each key, and no transaction may be open. Where namespaces cannot be
made, relays stand between the nodes, and clients are cut off from none: `alone` and `answers` are
as `nodes`. Five to ten minutes for each client.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from brokers import TESTS
from rich.console import Console
from rich.table import Table

# The cluster, the clients and what is done to them are the tests' own.
sys.path.append(str(TESTS))

from exactly_once_clients import CARRIERS, Carried, Task

from rig.apache_kafka.jars import PeerMissing, fetched_jars, fetched_streams_jars
from rig.broker import NO_RETENTION_ROUND
from rig.cluster_questions import until
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware
from rig.failover.killed_node import KilledNode, Role, Strike, open_transactions, schedule
from rig.failover.namespaces import Namespaces
from rig.failover.network_ordeal import Cut
from rig.failover.networked import cluster_on, enter_namespaces, open_network
from rig.failover.relays import Relays
from rig.pipeline.ordeal import NODE_SETTINGS

ALL = "all"
LINE_EVERY_SECONDS = 10
FETCHED = {"java": fetched_jars, "streams": fetched_streams_jars}
SETTINGS = {
    **BRISK_SESSIONS,
    **NO_RETENTION_ROUND,
    **NODE_SETTINGS,
    "transaction.two.phase.commit.enable": "true",
}


@dataclass(slots=True, kw_only=True)
class Outcome:
    client: str
    carried: Carried | None
    struck: Counter[Strike]
    left_open: int
    faults: list[str]
    seconds: float

    @property
    def is_good(self) -> bool:
        carried = self.carried
        return (
            carried is not None
            and carried.records_in == carried.records_out
            and not (carried.duplicates or carried.missing or carried.out_of_order)
            and not self.left_open
            and not self.faults
        )


def main() -> None:
    options = parsed()
    console = Console(width=160, highlight=False)
    clients = [*CARRIERS] if options.client == ALL else [options.client]
    clients = [client for client in clients if is_there(client, console)]
    if options.cuts:  # jars were fetched before: inside there is no way out
        reason = enter_namespaces([sys.executable, *sys.argv])
        if reason is not None:
            console.print(f"relays in the place of network namespaces: {reason}")
    with ExitStack() as opened:
        network = opened.enter_context(closing(open_network())) if options.cuts else None
        folder = options.logs or Path(tempfile.mkdtemp(prefix="penstock-exactly-once-"))
        console.print(f"seed {options.seed}, data and logs in {folder}")
        outcomes = [run(client, options, network, folder / client, console) for client in clients]
    show(outcomes, console)
    if options.logs is None and all(one.is_good for one in outcomes):
        shutil.rmtree(folder)
    sys.exit(0 if outcomes and all(one.is_good for one in outcomes) else 1)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--client", choices=(*CARRIERS, ALL), default=ALL)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--cuts", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument(
        "--logs",
        type=Path,
        help="a new folder for data and logs, which are kept; by default only where it ended badly",
    )
    return parser.parse_args()


def is_there(client: str, console: Console) -> bool:
    try:
        FETCHED.get(client, Path)()
    except PeerMissing as missing:
        console.print(f"without {client}: {missing}")
        return False
    return True


def run(
    client: str,
    options: argparse.Namespace,
    network: Namespaces | Relays | None,
    folder: Path,
    console: Console,
) -> Outcome:
    """One client, on a cluster of its own."""
    started = time.monotonic()
    folder.mkdir(parents=True)
    strikes = schedule(options.seed, kills=options.kills, cuts=options.cuts)
    lines = Lines(client, console, strikes=len(strikes))
    carried, faults, left = None, [], {}
    with cluster_on(network, PenstockSoftware(), folder, settings=SETTINGS) as cluster:
        cluster.start()
        node = KilledNode(
            cluster,
            topics=CARRIERS[client].topics,
            seed=options.seed,
            network=network,
            strikes=strikes,
            told=lines.tell_strike,
        )
        task = Task(
            cluster=cluster,
            node=node,
            strikes=len(strikes),
            seed=options.seed,
            folder=folder,
            told=lines.tell,
        )
        try:
            carried = CARRIERS[client].carry(task)
            faults += carried.faults
        except AssertionError as error:
            faults.append(f"it came to no end: {error}")
        finally:
            if network is not None:
                network.heal()
        try:
            until("no transaction is open", lambda: not open_transactions(cluster))
        except AssertionError:
            left = open_transactions(cluster)
            faults.append(f"transactions are open: {left}")
    if node.struck.total() < len(strikes):
        faults.append(f"it came to its end after {node.struck.total()} of {len(strikes)} strikes")
    return Outcome(
        client=client,
        carried=carried,
        struck=node.struck,
        left_open=len(left),
        faults=[*faults, *node.faults],
        seconds=time.monotonic() - started,
    )


class Lines:
    """One for each strike, and now and then one of the client's progress."""

    def __init__(self, client: str, console: Console, *, strikes: int) -> None:
        self._client = client
        self._console = console
        self._strikes = strikes
        self._struck = 0
        self._started = time.monotonic()
        self._next = 0.0

    def tell_strike(self, what: str) -> None:
        self._struck += 1
        self._print(f"strike {self._struck} of {self._strikes}: {what}")

    def tell(self, progress: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY_SECONDS
            self._print(progress.strip())

    def _print(self, line: str) -> None:
        seconds = time.monotonic() - self._started
        self._console.print(f"{self._client:9} {seconds:6.1f} s  {line}")


def show(outcomes: list[Outcome], console: Console) -> None:
    table = Table(title="exactly once, through kills and cuts")
    table.add_column("")
    for one in outcomes:
        table.add_column(one.client, justify="right")
    for role in Role:
        table.add_row(f"killed: {role.value}", *(f"{one.struck[role]}" for one in outcomes))
    for cut in Cut:
        table.add_row(f"cut: {cut.name.lower()}", *(f"{one.struck[cut]}" for one in outcomes))
    for what, name in (
        ("records in", "records_in"),
        ("records out", "records_out"),
        ("duplicates", "duplicates"),
        ("missing", "missing"),
        ("out of order", "out_of_order"),
        ("client restarted, as its contract asks", "restarts"),
    ):
        cells = (f"{getattr(one.carried, name):,}" if one.carried else "?" for one in outcomes)
        table.add_row(what, *cells)
    table.add_row("transactions left open", *(f"{one.left_open}" for one in outcomes))
    table.add_row("seconds", *(f"{one.seconds:.0f}" for one in outcomes))
    table.add_row("exactly once", *("yes" if one.is_good else "[red]NO" for one in outcomes))
    console.print(table)
    for one in outcomes:
        errors = Counter(one.carried.errors if one.carried else ())
        for error, count in errors.most_common(10):
            console.print(f"{one.client} was told, {count} times: {error[:300]}", markup=False)
        for fault in one.faults[:20]:
            console.print(f"{one.client}: FAULT: {fault}", markup=False, style="red")


if __name__ == "__main__":
    main()
