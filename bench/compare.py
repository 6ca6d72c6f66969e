"""What a broker costs, side by side with Apache Kafka: `python bench/compare.py --help`.

Both brokers run at the same time and are asked in turn, round by round, the first one changing; a
first round warms them up and is not counted. A run writes 0.5 GB at most. Its topic is deleted at
once, and the next run begins when the files are gone and the disk has taken what else was written.
The figure of a case is the least cost of its rounds: what else happens on a machine, and memory
that its host has to provide again, only adds to it. The median stands beside it.

With `--nodes 3` they are clusters, with cases of their own; the cost is that of all nodes together.
"""

import argparse
import io
import math
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from brokers import (
    ApacheKafka,
    Broker,
    LoneBroker,
    Penstock,
    forget_topic,
    kafka_jars,
    leaders_on,
    resident_mib,
    topic_on,
)
from cases import Case, chosen
from clusters import Cluster, kafka_cluster, penstock_cluster
from library import library_cost
from loading import (
    LoadFailed,
    Measured,
    Templates,
    Topic,
    apply_load,
    built_load,
    write_templates,
)
from report import Figures, Ledger, figures_of
from rich.console import Console

from penstock.records.compression import Codec

DIRTY_BYTES_MAX = 100_000_000
DIRTY_SECONDS_MAX = 20
ROUNDS = 8
TABLE_WIDTH = 170  # of a file, which has no width of its own
WARM_UP_SCALE = 0.5
KAFKA_WARM_UPS = 2  # a virtual machine that compiles as it goes needs more than one


def main() -> None:
    arguments = parsed()
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)  # so that a file can be followed
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no broker is left behind
    console = Console()
    if not console.is_terminal:
        console.width = TABLE_WIDTH
    cases = chosen(arguments.only, quick=arguments.quick, nodes=arguments.nodes)
    if not cases:
        raise SystemExit(f"no case is called {arguments.only}; --list names them all")
    if arguments.list:
        console.print("\n".join(case.name for case in cases))
        return
    program = built_load()
    if isinstance(program, str):
        raise SystemExit(program)
    started = time.monotonic()
    of_nodes = " of the largest node" if arguments.nodes > 1 else ""
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="penstock-bench-") as folder:
        brokers: Sequence[Broker] = (
            clusters_in(Path(folder), arguments, console)
            if arguments.nodes > 1
            else brokers_in(Path(folder), arguments, console)
        )
        ledger = Ledger(arguments.output)
        try:
            for broker in brokers:
                ledger.add_single("start to first ack", broker.name, broker.start() * 1000, "ms")
                resident = max(resident_mib(pid) for pid in broker.pids)
                ledger.add_single(f"RSS{of_nodes}, idle", broker.name, resident, "MiB")
            templates = {case.name: write_templates(case, Path(folder)) for case in cases}
            for case in cases:
                if case.framing.codec is not Codec.NONE:
                    ledger.add_library(case, library_cost(case, templates[case.name]))
            bench = Bench(program, brokers, cases, templates, ledger, console)
            minutes_max = arguments.minutes or math.inf
            ends = started + minutes_max * 60
            try:
                bench.run(arguments.rounds, ends=ends)
            except KeyboardInterrupt:
                console.print("[yellow]stopped: the table has what was measured until then")
            for broker in brokers:
                resident = max(resident_mib(pid) for pid in broker.pids)
                ledger.add_single(f"RSS{of_nodes}, after load", broker.name, resident, "MiB")
        finally:
            for broker in brokers:
                broker.stop()
            ledger.close()
    title = f"least of {bench.rounds} rounds (median); {machine()}"
    ledger.show(console, cases, [broker.name for broker in brokers], title)
    minutes = (time.monotonic() - started) / 60
    console.print(f"{len(cases)} cases in {minutes:.1f} minutes")
    if arguments.output is not None:
        console.print(f"every run: {arguments.output}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the key cases, in about ten minutes")
    parser.add_argument("--only", metavar="TEXT,...", help="cases whose name has this in it")
    parser.add_argument("--broker", choices=("penstock", "kafka"), help="one of them alone")
    parser.add_argument(
        "--nodes",
        type=int,
        choices=(1, 3),
        default=1,
        help="3: clusters, with three replicas of each partition, min.insync.replicas=2, acks=all",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--minutes", type=float, help="no round begins that would take the whole beyond this"
    )
    parser.add_argument("--list", action="store_true", help="name the cases and do nothing")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="penstock's"
    )
    parser.add_argument(
        "--folder", help="where both keep their data (default: the system's choice)"
    )
    parser.add_argument("--output", type=Path, help="every run as a line of JSON")
    return parser.parse_args()


def brokers_in(folder: Path, arguments: argparse.Namespace, console: Console) -> list[LoneBroker]:
    brokers: list[LoneBroker] = []
    if arguments.broker != "kafka":
        brokers.append(Penstock(folder / "penstock", settings=settings_of(arguments)))
    jars = jars_for(arguments, console)
    if jars is not None:
        brokers.append(ApacheKafka(folder / "kafka", jars=jars))
    if not brokers:
        raise SystemExit("no broker to measure")
    return brokers


def clusters_in(folder: Path, arguments: argparse.Namespace, console: Console) -> list[Cluster]:
    clusters: list[Cluster] = []
    if arguments.broker != "kafka":
        clusters.append(penstock_cluster(folder / "penstock", settings=settings_of(arguments)))
    jars = jars_for(arguments, console)
    if jars is not None:
        clusters.append(kafka_cluster(folder / "kafka", jars=jars))
    if not clusters:
        raise SystemExit("no cluster to measure")
    return clusters


def settings_of(arguments: argparse.Namespace) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in arguments.set)


def jars_for(arguments: argparse.Namespace, console: Console) -> Path | None:
    """Those of Apache Kafka, if it is wanted and there."""
    if arguments.broker == "penstock":
        return None
    jars = kafka_jars()
    if isinstance(jars, str):
        console.print(f"[yellow]without Apache Kafka beside it: {jars}")
        return None
    return jars


class Bench:
    def __init__(
        self,
        program: Path,
        brokers: Sequence[Broker],
        cases: list[Case],
        templates: dict[str, Templates],
        ledger: Ledger,
        console: Console,
    ) -> None:
        self._program = program
        self._brokers = brokers
        self._cases = cases
        self._templates = templates
        self._ledger = ledger
        self._console = console
        self._topics = 0
        self.rounds = 0  # that were measured

    def run(self, rounds: int, *, ends: float) -> None:
        """All cases round by round, so that what is busy for a while hits one round of each. When
        the next one would go beyond `ends`, on the monotonic clock, it does not begin.
        """
        for case in self._cases:
            for broker in self._brokers:
                self._warm_up(case, broker)
            self._console.print(f"[dim]warmed up: {case.name}")
        for number in range(1, rounds + 1):
            started = time.monotonic()
            in_turn = self._brokers if number % 2 else self._brokers[::-1]
            for case in self._cases:
                for broker in in_turn:
                    self._measure(case, broker, number)
            self.rounds = number
            seconds = time.monotonic() - started
            self._console.print(f"round {number} of {rounds} took {seconds / 60:.1f} minutes")
            if number < rounds and time.monotonic() + seconds > ends:
                self._console.print("there is no time for another round")
                return

    def _warm_up(self, case: Case, broker: Broker) -> None:
        times = KAFKA_WARM_UPS if broker.name == "kafka" else 1
        with self._console.status(f"warming up {broker.name}: {case.name}"):
            for _ in range(times):
                with suppress(LoadFailed):  # told when it is measured
                    self._once(case, broker, scale=WARM_UP_SCALE)

    def _measure(self, case: Case, broker: Broker, number: int) -> None:
        try:
            with self._console.status(f"round {number}, {broker.name}: {case.name}"):
                measured, figures = self._once(case, broker, scale=1.0)
        except LoadFailed as error:
            self._console.print(f"[red]{number} {broker.name:8} {case.name:32} {error}")
            return
        self._ledger.add(case, broker.name, number, figures, measured)
        quantiles = f" p50 {figures.p50_ms:.2f} p99 {figures.p99_ms:.2f}" if figures.p50_ms else ""
        self._console.print(
            f"[dim]{number} {broker.name:8} {case.name:32} "
            f"rate {figures.rate:10,.0f}  cost {figures.cost:8.3f}{quantiles}"
        )

    def _once(self, case: Case, broker: Broker, *, scale: float) -> tuple[Measured, Figures]:
        await_clean_pages()
        self._topics += 1
        name = f"bench-{self._topics}"
        topic_id = topic_on(broker, name, case.partitions)
        topic = Topic(name=name, topic_id=topic_id, leaders=leaders_on(broker, name))
        templates = self._templates[case.name]
        try:
            measured = apply_load(self._program, case, templates, broker, topic, scale=scale)
        finally:
            forget_topic(broker, name)
        return measured, figures_of(case, templates, measured)


def await_clean_pages() -> None:
    """Waits, within bounds, until little is left that the disk has yet to take."""
    if dirty_bytes() > DIRTY_BYTES_MAX:
        os.sync()  # what is left would not be written before it is half a minute old
    deadline = time.monotonic() + DIRTY_SECONDS_MAX
    while dirty_bytes() > DIRTY_BYTES_MAX and time.monotonic() < deadline:
        time.sleep(0.1)


def dirty_bytes() -> int:
    wanted = ("Dirty:", "Writeback:")
    lines = Path("/proc/meminfo").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(wanted))


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
