"""What an operator does to a living cluster, under load: grow, move, drain, remove, replace a disk.

    python bench/operating.py                  some minutes, and about 3 GB of disk
    python bench/operating.py --small          as tests/node/test_operating_a_cluster.py does it
    python bench/operating.py --throttle 20000000 --ballast 20000 --json

Three nodes as processes, RF 3, min.insync.replicas=2; idempotent producers of confluent-kafka with
acks of all write the whole time. Two nodes are added, and vote. Half of the partitions move to
them: one half of those without a throttle, the other with one. The first two nodes are drained,
removed from the voters, stopped and unregistered. The third one is killed and loses its disk: it is
removed from the voters, formatted, started and added again. All of it with the `penstock` command,
as docs/cluster.md says.

Each step is shown with the time from `produce` to the ack of what was sent meanwhile. The throttle
must be kept within 10 %: the busiest broker, of what it sends or of what it fetches for replicas
that are out of sync, by the sizes of files. At the end every acked record must be there once, at
the offset that was acked, the records of each producer in order, and replicas equal.
"""

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from brokers import TESTS
from rich.console import Console
from rich.table import Table

# The cluster, and what is done to it, are the tests' own.
sys.path.append(str(TESTS))

from rig.operating.cluster import OperatedCluster
from rig.operating.ordeal import (
    FULL,
    SETTINGS,
    SMALL,
    Copying,
    OperatingOrdeal,
    OperatingReport,
    Sizes,
    Step,
)


def main() -> None:
    options = parsed()
    sizes = wanted(options)
    console = Console(highlight=False, stderr=options.json)
    with ExitStack() as opened:
        temporary = tempfile.TemporaryDirectory(prefix="penstock-operating-")
        folder = options.logs or Path(opened.enter_context(temporary))
        folder.mkdir(parents=True, exist_ok=True)
        settings = {**SETTINGS, **dict(pair.split("=", 1) for pair in options.set)}
        cluster = opened.enter_context(OperatedCluster(folder, settings=settings))
        cluster.start()
        started = time.monotonic()

        def tell(line: str) -> None:
            console.print(f"{time.monotonic() - started:6.1f} s  {line}")

        with console.status("begins") as status:
            report = OperatingOrdeal(cluster, sizes, told=tell, begun=status.update).run()
    if options.json:
        print(json.dumps(value(report, sizes), indent=2))
    else:
        show(report, console)
    sys.exit(1 if report.faults or report.open else 0)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="little of everything")
    parser.add_argument("--partitions", type=int, help="of each of the two topics; 4, 8, ...")
    parser.add_argument(
        "--ballast", type=int, help="records of 10,000 bytes in each partition that moves along"
    )
    parser.add_argument("--throttle", type=int, help="bytes a second")
    parser.add_argument("--producers", type=int)
    parser.add_argument("--rate", type=float, help="records a second of each producer")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of nodes")
    parser.add_argument("--logs", type=Path, help="a new folder for data and logs, which are kept")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    return parser.parse_args()


def wanted(options: argparse.Namespace) -> Sizes:
    given = {
        "partitions": options.partitions,
        "ballast_records": options.ballast,
        "throttle_bytes": options.throttle,
        "producers": options.producers,
        "rate": options.rate,
    }
    return replace(
        SMALL if options.small else FULL,
        **{name: value for name, value in given.items() if value is not None},
    )


def show(report: OperatingReport, console: Console) -> None:
    table = Table("step", "seconds", "p50 ms", "p99 ms", "max ms", "MB copied", "MB/s")
    for column in table.columns[1:]:
        column.justify = "right"
    for step in report.steps:
        table.add_row(*row(step))
    console.print(table)
    for step in report.steps:
        if step.copying is not None:
            console.print(f"{step.name}: {rates(step.copying)}")
    console.print(
        f"{report.acked:,} records acked, {report.open} open, {len(report.faults)} broken promises"
    )
    for fault in report.faults[:50]:
        console.print(f"  {fault}", style="red", markup=False)


def row(step: Step) -> tuple[str, ...]:
    produced = step.latency
    figures = ("-",) * 3
    if produced is not None:
        figures = (f"{produced.p50_ms:.1f}", f"{produced.p99_ms:.1f}", f"{produced.max_ms:.1f}")
    copied: tuple[str, ...] = ("", "")
    if step.copying is not None:
        rate = step.copying.busiest_per_second
        copied = (f"{step.copying.copied_bytes / 1e6:.1f}", f"{rate / 1e6:.2f}")
    return (step.name, f"{step.seconds:.1f}", *figures, *copied)


def rates(copying: Copying) -> str:
    """Each broker, while replicas were out of sync."""
    text = "; ".join(
        f"{what} " + ", ".join(f"{node}: {rate / 1e6:.2f}" for node, rate in told.items())
        for what, told in (
            ("MB/s fetched by", copying.fetched_per_second),
            ("sent by", copying.sent_per_second),
        )
    )
    share = copying.of_throttle
    return text if share is None else f"{text}; the busiest {share:.1%} of the throttle"


def value(report: OperatingReport, sizes: Sizes) -> dict[str, object]:
    return {
        "sizes": asdict(sizes),
        "steps": [
            {
                "name": step.name,
                "seconds": round(step.seconds, 2),
                "produce": None if step.latency is None else step.latency._asdict(),
                "copying": None
                if step.copying is None
                else {**asdict(step.copying), "of_throttle": step.copying.of_throttle},
            }
            for step in report.steps
        ],
        "acked": report.acked,
        "open": report.open,
        "faults": report.faults,
    }


if __name__ == "__main__":
    main()
