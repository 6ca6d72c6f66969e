"""What metrics cost a node: small requests, and batches of 64 KiB.

    python bench/metrics_cost.py [--pairs 40] [--requests 20000] [--scrape-seconds 15]
                                 [--data FOLDER]

One node, whose endpoint is scraped as Prometheus does, has its counters switched on and off, and is
asked for the same with and without in turn; which is first changes from pair to pair. The figure is
the median of the differences in CPU time for each request, in hundredths of what it takes without,
with the interval of the sign test.

On: each request is counted by its API, one produce or fetch in 64 is timed in its parts, errors are
counted, and the page is asked for every 15 seconds of such time. Off: requests are answered as by a
node without `--metrics`, alerts and traces, and nobody asks for the page. What a node has in either
case is on both sides, so it is not part of the figure: the counters of topics, which every node
keeps; and of one with `--metrics` its idle endpoint, the timer that tells ten times a second how
late the event loop is, and the two APIs by which clients push their metrics.

Data are in memory (/dev/shm) where there is room: the kernel counts what it does for pages that a
disk has yet to get as CPU time of the node, those of runs before too.
"""

import argparse
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from before_after import REQUESTS, TOPIC, compared, measured
from brokers import TESTS, Penstock, Switched, forget_topic, topic_on
from cases import KIB, PRODUCE_BY_NAME, Case, Kind
from compare import machine
from loading import Templates, built_load, run_program, write_templates
from rich.console import Console
from rich.table import Table
from security_run import SMALL

sys.path.append(str(TESTS))

from rig.held_port import HeldPort

BATCHES = Case(name="batches", kind=Kind.PRODUCE, batch_bytes=64 * KIB)
BATCHES_PER_RUN = 8_000
MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 * BATCHES_PER_RUN * 64 * KIB  # what was written is deleted before the next run


def main() -> None:
    arguments = parsed()
    program = built_load()
    if isinstance(program, str):
        raise SystemExit(program)
    table = Table(title=f"{arguments.pairs} pairs; {machine()}")
    for heading in ("request", "off", "on", "difference", "interval"):
        table.add_column(heading, justify="left" if heading == "request" else "right")
    port = HeldPort()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=arguments.data) as folder:
        settings = {"penstock.metrics.address": port.address}
        node = Switched(Path(folder, "node"), part="counters", settings=settings)
        switch = Switch(node, f"http://{port.address}/metrics", arguments.scrape_seconds)
        nodes = {"other": node, "this": node}
        try:
            node.start()
            topics = dict.fromkeys(nodes, topic_on(node, TOPIC, 1))
            small = write_templates(SMALL, Path(folder)).path
            for request, options in REQUESTS.items():
                asked = {"templates": small, **options}
                costs = measured(arguments, program, nodes, topics, asked, switch.turn)
                table.add_row(request, *compared(costs))
            templates = write_templates(BATCHES, Path(folder))
            costs = written(arguments, program, nodes, templates, switch.turn)
            table.add_row("produce 64 KiB", *compared(costs))
        finally:
            node.stop()
    console = Console(highlight=False)
    console.print(table)
    console.print(f"scraped {switch.scrapes} times")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--scrape-seconds", type=float, default=15)
    parser.add_argument(
        "--data",
        type=Path,
        default=MEMORY if has_room(MEMORY) else None,
        help="where the node's data are  [default: in memory if there is room]",
    )
    return parser.parse_args()


def has_room(folder: Path) -> bool:
    return folder.is_dir() and shutil.disk_usage(folder).free > ROOM_BYTES


def written(
    arguments: argparse.Namespace,
    program: Path,
    nodes: Mapping[str, Penstock],
    templates: Templates,
    before: Callable[[str], None],
) -> dict[str, list[float]]:
    """Microseconds of CPU for each batch, pair by pair; what was written is deleted at once."""
    costs: dict[str, list[float]] = {name: [] for name in nodes}
    for number in range(arguments.pairs + 1):  # the first one warms up
        for name in sorted(nodes, reverse=bool(number % 2)):
            topic = f"batches-{number}-{name}"
            options: dict[str, object] = {
                "kind": "produce",
                "topic": topic,
                "topic-id": topic_on(nodes[name], topic, BATCHES.partitions).hex(),
                "templates": templates.path,
                "produce-version": PRODUCE_BY_NAME,
                "partitions": BATCHES.partitions,
                "acks": BATCHES.acks,
                "connections": BATCHES.connections,
                "in-flight": BATCHES.in_flight,
                "requests": min(arguments.requests, BATCHES_PER_RUN),
            }
            before(name)
            found = run_program(program, nodes[name], options)
            forget_topic(nodes[name], topic)
            if number:
                costs[name].append(found.cpu_seconds / found.requests * 1e6)
    return costs


class Switch:
    """Counters on or off; while they are on, the page is asked for now and then."""

    def __init__(self, node: Switched, url: str, seconds: float) -> None:
        self.scrapes = 0
        self._node = node
        self._url = url
        self._seconds = seconds
        self._is_on = True
        self._turned = time.monotonic()
        self._on_seconds = 0.0  # since the last scrape

    def turn(self, name: str) -> None:
        now = time.monotonic()
        if self._is_on:
            self._on_seconds += now - self._turned
        self._turned, self._is_on = now, name == "this"
        self._node.switch(on=self._is_on)
        if self._is_on and self._on_seconds >= self._seconds:
            self._on_seconds = 0.0
            self.scrapes += 1
            threading.Thread(target=self._scrape).start()

    def _scrape(self) -> None:
        with urllib.request.urlopen(self._url) as page:
            page.read()


if __name__ == "__main__":
    main()
