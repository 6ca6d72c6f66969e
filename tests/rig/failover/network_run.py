"""The program of the network ordeal, which runs inside namespaces of its own.

    python -m rig.failover.network_run [--times 10] [--broker penstock] ...

It starts itself again inside them; where they cannot be made, or with `--network relays`, the nodes
are on the loopback with relays between them. `bench/network_ordeal.py` is for people, and tests
start it with few rounds. It ends with status 1 and the broken promises on standard output if there
are any.
"""

import argparse
import random
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from rig.apache_kafka.jars import PeerMissing, fetched_jars
from rig.failover.acked_records import NoProgress
from rig.failover.cluster import (
    BRISK_SESSIONS,
    KafkaSoftware,
    PenstockSoftware,
    Software,
)
from rig.failover.namespaces import CLIENTS
from rig.failover.network_ordeal import Cut, NetworkOrdeal, run_cuts
from rig.failover.networked import cluster_on, enter_namespaces, open_network
from rig.failover.producers import java_producer_command

NAMESPACES, RELAYS = "namespaces", "relays"
PENSTOCK, KAFKA = "penstock", "kafka"
CUTS_BY_RELAYS = (Cut.NODES, Cut.OUTWARDS, Cut.INWARDS)  # relays do not stand before clients


def main() -> None:
    options = parsed()
    if options.network == NAMESPACES:
        again = [sys.executable, "-m", "rig.failover.network_run", *sys.argv[1:]]
        reason = enter_namespaces(again)
        if reason is not None:
            told(f"relays in the place of network namespaces: {reason}")
            options.network = RELAYS
    options.cuts = cuts_of(options)
    with ExitStack() as opened:
        folder = options.logs or Path(
            opened.enter_context(tempfile.TemporaryDirectory(prefix="penstock-network-"))
        )
        folder.mkdir(parents=True, exist_ok=True)
        run(options, folder, opened)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=10, help="each kind of cut")
    parser.add_argument("--cuts", help="kinds of them; all that the network can make by default")
    parser.add_argument("--broker", choices=(PENSTOCK, KAFKA), default=PENSTOCK)
    parser.add_argument("--network", choices=(NAMESPACES, RELAYS), default=NAMESPACES)
    parser.add_argument("--rate", type=float, default=100, help="records a second of each producer")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--acks", choices=("all", "1"), default="all")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of nodes")
    parser.add_argument("--no-java", action="store_true", help="without the Java producer")
    parser.add_argument("--logs", type=Path, help="a new folder for data and logs, which are kept")
    return parser.parse_args()


def cuts_of(options: argparse.Namespace) -> list[Cut]:
    by_name = {cut.name.lower(): cut for cut in Cut}
    able = list(Cut) if options.network == NAMESPACES else list(CUTS_BY_RELAYS)
    able_names = ", ".join(cut.name.lower() for cut in able)
    if options.cuts is None:
        return able
    cuts = []
    for name in options.cuts.split(","):
        if by_name.get(name) not in able:
            raise SystemExit(f"--cuts {name}: {options.network} can make {able_names}")
        cuts.append(by_name[name])
    return cuts


def run(options: argparse.Namespace, folder: Path, opened: ExitStack) -> None:
    java, software = None, software_of(options)
    if not options.no_java:
        try:
            java = java_producer_command(jars=fetched_jars(), folder=folder)
        except PeerMissing as missing:
            told(f"without the Java producer: {missing}")
    settings = {**BRISK_SESSIONS, **dict(pair.split("=", 1) for pair in options.set)}
    network = opened.enter_context(closing(open_network()))
    cluster = opened.enter_context(cluster_on(network, software, folder, settings=settings))
    cluster.start()
    told(f"{software.name}, {options.network}, seed {options.seed}, data and logs in {folder}")
    ordeal = NetworkOrdeal(
        cluster,
        network,
        clients=CLIENTS,
        seed=options.seed,
        rate=options.rate,
        java=java,
        acks=options.acks,
    )
    try:
        run_cuts(ordeal, options.cuts * options.times, told=told, seed=options.seed)
    except (NoProgress, AssertionError) as error:
        ordeal.report.faults.append(str(error))
    report = ordeal.finish()
    for cut, count in report.cuts.most_common():
        told(f"{count:4} times {cut.value}")
    told(f"{options.broker}, seed {options.seed}: {report.line}")
    if report.errors:
        told(f"clients said: {report.errors}")
    for fault in report.faults[:50]:
        told(f"  {fault}")
    if report.faults:
        raise SystemExit(1)


def software_of(options: argparse.Namespace) -> Software:
    return PenstockSoftware() if options.broker == PENSTOCK else KafkaSoftware(fetched_jars())


def told(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
