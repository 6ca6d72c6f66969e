"""What metrics cost a node: small requests, and batches of 64 KiB.

    python bench/metrics_cost.py [--pairs 40] [--requests 20000] [--scrape-seconds 15]

Two nodes run at the same time, one with a metrics endpoint that is scraped as Prometheus does, and
one without. Both are asked in turn for the same; which is first changes from pair to pair. The
figure is the median of the differences in CPU time of the node for each request, in hundredths of
what it takes without metrics, with the interval of the sign test.
"""

import argparse
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from before_after import REQUESTS, TOPIC, compared, measured
from brokers import TESTS, Penstock, forget_topic, topic_on
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


def main() -> None:
    arguments = parsed()
    program = built_load()
    if isinstance(program, str):
        raise SystemExit(program)
    table = Table(title=f"{arguments.pairs} pairs; {machine()}")
    for heading in ("request", "off", "on", "difference", "interval"):
        table.add_column(heading, justify="left" if heading == "request" else "right")
    port = HeldPort()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        on = {"penstock.metrics.address": port.address}
        nodes = {
            "other": Penstock(Path(folder, "off"), settings={}, name="off"),
            "this": Penstock(Path(folder, "on"), settings=on, name="on"),
        }
        scraped = Scraping(f"http://{port.address}/metrics", arguments.scrape_seconds)
        try:
            topics = {}
            for name, node in nodes.items():
                node.start()
                topics[name] = topic_on(node, TOPIC, 1)
            scraped.start()
            small = write_templates(SMALL, Path(folder)).path
            for request, options in REQUESTS.items():
                asked = {"templates": small, **options}
                table.add_row(
                    request, *compared(measured(arguments, program, nodes, topics, asked))
                )
            costs = written(arguments, program, nodes, write_templates(BATCHES, Path(folder)))
            table.add_row("produce 64 KiB", *compared(costs))
        finally:
            scraped.end()
            for node in nodes.values():
                node.stop()
    console = Console(highlight=False)
    console.print(table)
    console.print(f"scraped {scraped.times} times")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--scrape-seconds", type=float, default=15)
    return parser.parse_args()


def written(
    arguments: argparse.Namespace,
    program: Path,
    nodes: Mapping[str, Penstock],
    templates: Templates,
) -> dict[str, list[float]]:
    """Microseconds of CPU for each batch, pair by pair; what was written is deleted at once."""
    costs: dict[str, list[float]] = {name: [] for name in nodes}
    for number in range(arguments.pairs + 1):  # the first one warms up
        for name in sorted(nodes, reverse=bool(number % 2)):
            topic = f"batches-{number}"
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
            found = run_program(program, nodes[name], options)
            forget_topic(nodes[name], topic)
            if number:
                costs[name].append(found.cpu_seconds / found.requests * 1e6)
    return costs


class Scraping:
    """Asks for the page now and then, in a thread."""

    def __init__(self, url: str, seconds: float) -> None:
        self.times = 0
        self._url = url
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            with urllib.request.urlopen(self._url) as page:
                page.read()
            self.times += 1


if __name__ == "__main__":
    main()
