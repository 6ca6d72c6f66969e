"""How long until a record is acked, how much memory an idle node holds, how long a fixture takes.

    python bench/start.py [--rounds N]

Three questions, each asked some times; the table shows the median and the range. Every node gets a
fresh directory and a free port, so the first start includes formatting. The client is a raw socket
that sends one Produce request encoded beforehand: a client library's own start would be measured
with it otherwise.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from asking import Asking
from rich.console import Console
from rich.progress import track
from rich.table import Table

READY = "penstock ready: "
MIB = 1024 * 1024

# The fixture as pytest uses it, timed from after the import: that is paid once in a test run.
FIXTURE = """
import time
from penstock.testing import running_broker
running_broker
import penstock.testing.broker
started = time.perf_counter()
with running_broker() as broker:
    print(time.perf_counter() - started)
"""
IMPORT = """
import time
started = time.perf_counter()
import penstock.testing.broker
print(time.perf_counter() - started)
"""


class Served:
    """One `penstock serve`, from its start to its end."""

    def __init__(self, data: Path) -> None:
        command = [str(Path(sys.executable).with_name("penstock")), "serve"]
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [*command, "--data", str(data), "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(READY), line
        host, port = line.removeprefix(READY).strip().rsplit(":", 1)
        self.address = (host, int(port))

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(30) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()


def first_ack_seconds() -> float:
    """Process start to the ack of a record, on an empty directory and a topic made on the way."""
    with tempfile.TemporaryDirectory() as folder:
        node = Served(Path(folder) / "data")
        with Asking(node.address) as asking:
            asking.produce_one(asking.create_topic("bench", 1))
            taken = time.perf_counter() - node.started
        node.stop()
    return taken


def idle_mib() -> float:
    """Resident memory of a node two seconds after it was ready, with nobody connected."""
    with tempfile.TemporaryDirectory() as folder:
        node = Served(Path(folder) / "data")
        time.sleep(2)
        resident = psutil.Process(node.process.pid).memory_info().rss
        node.stop()
    return resident / MIB


def fixture_seconds() -> float:
    return measured_inside(FIXTURE)


def import_seconds() -> float:
    return measured_inside(IMPORT)


def measured_inside(program: str) -> float:
    outcome = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    return float(outcome.stdout)


QUESTIONS: tuple[tuple[str, Callable[[], float], float, str], ...] = (
    ("process start to first acked produce", first_ack_seconds, 1000, "ms"),
    ("idle RSS of a node", idle_mib, 1, "MiB"),
    ("fixture: start-up after import", fixture_seconds, 1000, "ms"),
    ("fixture: import", import_seconds, 1000, "ms"),
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=10)
    rounds = arguments.parse_args().rounds
    console = Console()
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    table = Table(title=f"start ({machine}; {rounds} rounds)")
    for heading in ("question", "median", "least", "most", "unit"):
        table.add_column(heading, justify="left" if heading in {"question", "unit"} else "right")
    for name, ask, factor, unit in QUESTIONS:
        found = [ask() * factor for _ in track(range(rounds), name, console=console)]
        shown = (statistics.median(found), min(found), max(found))
        table.add_row(name, *(f"{value:.0f}" for value in shown), unit)
    console.print(table)


if __name__ == "__main__":
    main()
