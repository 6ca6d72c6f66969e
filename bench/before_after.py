"""Whether small requests cost a node more than they cost another installation of Penstock.

    python bench/before_after.py OTHER/.venv/bin/penstock [--pairs 70] [--requests 20000]

A node of each runs, at the same time, and both are asked in turn for the same; which is first
changes from pair to pair. The figure is the median of the differences in CPU time of the node for
each request, in hundredths of what the other takes, with the interval of the sign test. Machines
that are shared swing by a third within a minute, which pairs of seconds do not feel.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from brokers import SHARED_SETTINGS, Penstock, topic_on
from cases import FETCH_BY_NAME, PRODUCE_BY_ID, PRODUCE_BY_NAME
from compare import machine
from loading import built_load, run_program, write_templates
from pairs import median_interval
from rich.console import Console
from rich.table import Table
from security_run import SMALL

TOPIC = "orders"
CONNECTIONS, IN_FLIGHT = 64, 4
REQUESTS: dict[str, dict[str, object]] = {
    "produce by name": {"kind": "produce", "produce-version": PRODUCE_BY_NAME},
    "produce by id": {"kind": "produce", "produce-version": PRODUCE_BY_ID},
    "fetch": {"kind": "small-fetch", "fetch-version": FETCH_BY_NAME},
}


class Installed(Penstock):
    """A node of an installation that is not the one that measures."""

    def __init__(self, program: str, folder: Path, name: str) -> None:
        super().__init__(folder, settings={}, name=name)
        self._program = program

    def start(self) -> float:
        self._folder.mkdir(parents=True)
        command = [self._program, "serve", "--data", str(self.data)]
        for name, value in {"listeners": self.listeners, **SHARED_SETTINGS}.items():
            command += ["--set", f"{name}={value}"]
        return self._serve(command)


def main() -> None:
    arguments = parsed()
    program = built_load()
    if isinstance(program, str):
        raise SystemExit(program)
    table = Table(title=f"{arguments.pairs} pairs; {machine()}")
    for heading in ("request", "other", "this one", "difference", "interval"):
        table.add_column(heading, justify="left" if heading == "request" else "right")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        nodes: dict[str, Penstock] = {
            "other": Installed(arguments.other, Path(folder, "other"), "other"),
            "this": Penstock(Path(folder, "this"), settings={}, name="this"),
        }
        try:
            topics = {}
            for name, node in nodes.items():
                node.start()
                topics[name] = topic_on(node, TOPIC, 1)
            templates = write_templates(SMALL, Path(folder))
            for request in REQUESTS:
                asked = {"templates": templates.path, **REQUESTS[request]}
                costs = measured(arguments, program, nodes, topics, asked)
                table.add_row(request, *compared(costs))
        finally:
            for node in nodes.values():
                node.stop()
    Console(highlight=False).print(table)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", help="the program `penstock` of the other installation")
    parser.add_argument("--pairs", type=int, default=70)
    parser.add_argument("--requests", type=int, default=20_000)
    return parser.parse_args()


def measured(
    arguments: argparse.Namespace,
    program: Path,
    nodes: Mapping[str, Penstock],
    topics: Mapping[str, bytes],
    asked: Mapping[str, object],
    before: Callable[[str], None] | None = None,
) -> dict[str, list[float]]:
    """Microseconds of CPU for each request, pair by pair. `before` is told whose turn it is."""
    costs: dict[str, list[float]] = {name: [] for name in nodes}
    for number in range(arguments.pairs + 1):  # the first one warms up
        for name in sorted(nodes, reverse=bool(number % 2)):
            options: dict[str, object] = {
                "topic": TOPIC,
                "topic-id": topics[name].hex(),
                "produce-version": PRODUCE_BY_NAME,
                "fetch-version": FETCH_BY_NAME,
                "connections": CONNECTIONS,
                "in-flight": IN_FLIGHT,
                "requests": arguments.requests,
                **asked,
            }
            if before is not None:
                before(name)
            found = run_program(program, nodes[name], options)
            if number:
                costs[name].append(found.cpu_seconds / found.requests * 1e6)
    return costs


def compared(costs: Mapping[str, list[float]]) -> list[str]:
    pairs = zip(costs["this"], costs["other"], strict=True)
    found = median_interval([(this / other - 1) * 100 for this, other in pairs])
    return [
        *(f"{statistics.median(costs[name]):.2f} µs" for name in ("other", "this")),
        f"{found.median:+.1f} %",
        f"{found.low:+.1f} to {found.high:+.1f} % ({found.coverage:.0%})",
    ]


if __name__ == "__main__":
    main()
