"""What exactly-once costs, side by side with Apache Kafka: `python bench/transactions.py --help`.

Four producers, each with a connection to each node it needs and five requests in flight there, 12
partitions, acks of all:

    plain      idempotent, as fast as it goes
    committed  the same in transactions, each producer commits every 100 ms
    steady     in transactions at 20 MB/s: what a commit takes where nothing is in its way
    ids        many transactional ids, one committed transaction each; then a kill and a restart

Both brokers run at the same time and are asked in turn, round by round, after one that warms them
up. The load speaks for clients of generation 2: a partition is added by the first batch to it, and
before a commit all acks are awaited. `commit` is the time from EndTxn to its reply, `begun` that to
the first ack of the next transaction: Apache Kafka answers a commit before its markers are written,
and who writes on meanwhile has to wait for them.

With `--nodes 3` they are clusters with three replicas of each partition; the cost is that of all
nodes together, and there are no `ids`.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from asking import Asking, first_asking
from brokers import Broker, LoneBroker, forget_topic, leaders_on, resident_mib, topic_on
from cases import KIB, Case, Kind
from compare import TABLE_WIDTH, await_clean_pages, brokers_in, clusters_in, machine
from loading import Measured, Templates, built_load, run_program, write_templates
from rich.console import Console
from rich.table import Table

PRODUCERS = 4
IN_FLIGHT = 5
PARTITIONS = 12
COMMIT_EVERY = "100ms"
STEADY_RATE = 312  # batches of 64 KiB a second: 20 MB/s
STEADY_SECONDS = 10
WARM_UP_SCALE = 0.5
QUICK_SCALE = 0.4
IDS_CONNECTIONS = 8
TRANSACTION_LOGS = "__transaction_state-*"
MB = 1e6
GB = 1e9
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How the same records are written."""

    name: str
    transactional: bool
    rate: int = 0  # batches a second; 0: as fast as it goes


WAYS = (
    Way(name="plain", transactional=False),
    Way(name="committed", transactional=True),
    Way(name="steady", transactional=True, rate=STEADY_RATE),
)

Figure = Callable[[Measured, Templates], float]
FIGURES: dict[str, Figure] = {
    "MB/s": lambda run, templates: run.bytes * templates.value_share / MB / run.seconds,
    "s/GB": lambda run, templates: run.cpu_seconds / (run.bytes * templates.value_share / GB),
    "commit p50": lambda run, _: run.p50_ms,
    "commit p99": lambda run, _: run.p99_ms,
    "begun p50": lambda run, _: run.begun_p50_ms,
    "begun p99": lambda run, _: run.begun_p99_ms,
}


def main() -> None:
    arguments = parsed()
    console = Console()
    if not console.is_terminal:
        console.width = TABLE_WIDTH
    program = built_load()
    if isinstance(program, str):
        raise SystemExit(program)
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="penstock-bench-") as folder:
        batch = Case(name="batches", kind=Kind.PRODUCE, batch_bytes=arguments.batch_kib * KIB)
        templates = write_templates(batch, Path(folder))
        bench = Bench(program, templates, console, scale=QUICK_SCALE if arguments.quick else 1.0)
        measured: Sequence[Broker]
        if arguments.nodes > 1:
            measured = clusters_in(Path(folder) / "costs", arguments, console)
        else:
            measured = brokers_in(Path(folder) / "costs", arguments, console)
        try:
            if arguments.rounds:
                bench.measure_costs(measured, arguments.rounds)
        finally:
            for one in measured:
                one.stop()
        brokers = brokers_in(Path(folder) / "ids", arguments, console)
        try:
            if arguments.ids and arguments.nodes == 1:
                bench.measure_ids(brokers, arguments.ids)
        finally:
            for broker in brokers:
                broker.stop()
    with open(arguments.output, "w", encoding="utf-8") as output:
        output.writelines(json.dumps(line) + "\n" for line in bench.lines)
    console.print(f"{machine()}; every run: {arguments.output}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="less than half of the bytes")
    parser.add_argument("--broker", choices=("penstock", "kafka"), help="one of them alone")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--rounds", type=int, default=3, help="0: the ids alone")
    parser.add_argument("--ids", type=int, default=10_000, help="0: the costs alone")
    parser.add_argument("--batch-kib", type=int, default=64, help="of records, in one request")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="penstock's"
    )
    parser.add_argument("--folder", help="where both keep their data")
    parser.add_argument("--output", type=Path, default=Path("bench-transactions.jsonl"))
    return parser.parse_args()


class Bench:
    def __init__(
        self, program: Path, templates: Templates, console: Console, *, scale: float
    ) -> None:
        self.lines: list[dict[str, object]] = []
        self._program = program
        self._templates = templates
        self._console = console
        self._scale = scale
        self._topics = 0

    def measure_costs(self, brokers: Sequence[Broker], rounds: int) -> None:
        """All ways in each round, the brokers in turn; prints medians."""
        for broker in brokers:
            broker.start()
            with Asking(broker.address) as asking:
                asking.await_transactions("bench")
        runs: dict[tuple[str, str], list[Measured]] = {}
        for number in range(rounds + 1):
            for way in WAYS:
                for broker in brokers:
                    scale = self._scale if number else self._scale * WARM_UP_SCALE
                    with self._console.status(f"round {number}, {broker.name}: {way.name}"):
                        run = self._write(way, broker, scale=scale)
                    if number:
                        runs.setdefault((way.name, broker.name), []).append(run)
                        self._note(way.name, broker, number, run)
        self._show_costs(runs, [broker.name for broker in brokers], rounds)

    def measure_ids(self, brokers: list[LoneBroker], ids: int) -> None:
        """Memory and disk of many transactional ids, and how soon they are served after a kill."""
        table = Table(title=f"{ids:,} transactional ids, one committed transaction each")
        for heading in ("", *(broker.name for broker in brokers)):
            table.add_column(heading, justify="right" if heading else "left")
        columns = [self._ids_of(broker, ids) for broker in brokers]
        for name in columns[0]:
            table.add_row(name, *(column[name] for column in columns))
        self._console.print(table)

    def _write(self, way: Way, broker: Broker, *, scale: float) -> Measured:
        await_clean_pages()
        self._topics += 1
        name = f"bench-{self._topics}"
        topic_id = topic_on(broker, name, PARTITIONS)
        if way.rate:
            requests = way.rate * STEADY_SECONDS
        else:
            requests = int(GB) // (self._templates.values_per_batch * 1000)
        options: dict[str, object] = {
            "kind": "idempotent",
            "topic-id": topic_id.hex(),
            "templates": self._templates.path,
            "partitions": PARTITIONS,
            "leaders": ",".join(leaders_on(broker, name)),
            "acks": -1,
            "connections": PRODUCERS,
            "in-flight": IN_FLIGHT,
            "requests": int(requests * scale),
            "rate": way.rate,
            "commit-every": COMMIT_EVERY if way.transactional else "0",
        }
        run = run_program(self._program, broker, options)
        forget_topic(broker, name)
        return run

    def _note(self, way: str, broker: Broker, number: int, run: Measured) -> None:
        self.lines.append({"way": way, "broker": broker.name, "round": number, **asdict(run)})
        shown = "  ".join(
            f"{name} {figure(run, self._templates):8.2f}" for name, figure in FIGURES.items()
        )
        self._console.print(
            f"[dim]{number} {broker.name:8} {way:10} {shown}  {run.commits} commits"
        )

    def _show_costs(
        self, runs: dict[tuple[str, str], list[Measured]], brokers: list[str], rounds: int
    ) -> None:
        table = Table(title=f"{rounds} rounds, medians; times in ms")
        for heading in ("", *FIGURES):
            table.add_column(heading, justify="right" if heading else "left")
        rates: dict[tuple[str, str], float] = {}
        for way in WAYS:
            for broker in brokers:
                row = [f"{way.name}, {broker}"]
                for name, figure in FIGURES.items():
                    found = [figure(run, self._templates) for run in runs[way.name, broker]]
                    median = statistics.median(found)
                    row.append(f"{median:,.2f}" if median else "")
                    if name == "MB/s":
                        rates[way.name, broker] = median
                table.add_row(*row)
        self._console.print(table)
        for broker in brokers:
            share = rates["committed", broker] / rates["plain", broker]
            self._console.print(f"{broker}: committed / plain = {share:.2f}")

    def _ids_of(self, broker: LoneBroker, ids: int) -> dict[str, str]:
        broker.start()
        with Asking(broker.address) as asking:
            asking.await_transactions("first")
            topic_id = asking.create_topic("ids", PARTITIONS)
            asking.await_served(topic_id, range(PARTITIONS))
        before_mib = resident_mib(broker.pid)
        options: dict[str, object] = {
            "kind": "transactional-ids",
            "topic-id": topic_id.hex(),
            "templates": self._templates.path,
            "partitions": PARTITIONS,
            "acks": -1,
            "connections": IDS_CONNECTIONS,
            "requests": ids,
        }
        with self._console.status(f"{broker.name}: {ids:,} transactional ids"):
            run = run_program(self._program, broker, options)
        self.lines.append({"way": "ids", "broker": broker.name, **asdict(run)})
        full_mib = resident_mib(broker.pid)
        size_bytes = sum(
            file.stat().st_size
            for directory in broker.data.rglob(TRANSACTION_LOGS)
            for file in directory.glob("*.log")
        )
        first_ms, all_ms = restarted(broker, ids)
        return {
            "ids a second": f"{run.requests / run.seconds:,.0f}",
            "one id, p50 / p99": f"{run.p50_ms:.2f} / {run.p99_ms:.2f} ms",
            "memory before, with the ids": f"{before_mib:.0f}, {full_mib:.0f} MiB",
            "__transaction_state": f"{size_bytes / MIB:.1f} MiB",
            "restart until the first id is served": f"{first_ms:,.0f} ms",
            "... until a hundred of them are": f"{all_ms:,.0f} ms",
            "memory after the restart": f"{resident_mib(broker.pid):.0f} MiB",
        }


def restarted(broker: LoneBroker, ids: int) -> tuple[float, float]:
    """Milliseconds from a start after a kill until the first of some ids is served, and all are."""
    started = time.perf_counter()
    broker.kill_and_start()
    first_ms = 0.0
    with first_asking(broker.address, lambda: True) as asking:
        for number in range(0, ids, max(ids // 100, 1)):
            asking.await_transactions(f"service-{number}")
            first_ms = first_ms or (time.perf_counter() - started) * 1000
    return first_ms, (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    main()
