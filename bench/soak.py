"""Long runs of a real node: whether it stays as it was, and whether it loses nothing.

    python bench/soak.py run --for 1h         constant load; memory, descriptors and lag each second
    python bench/soak.py kills --count 50 --fsync on     SIGKILL under load, again and again
    python bench/soak.py exactly-once         a pipeline whose processes and node are killed

Every record that is read is checked against what was acked. `run` needs about a third of a core and
says at the end whether memory, descriptors and threads were flat; the others use the code that the
tests kill with.
"""

import argparse
import json
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

import psutil
from asking import Asking
from flatness import drawn, flatness_of
from soak_load import NODE_SETTINGS, PRODUCERS, STREAM, Ledger, Worker, make_topics, work
from soak_pipeline import add_arguments, exactly_once
from soak_workers import Caller, Reader, Streamer, TableKeeper, Tailer, Visitor

from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

# The node that is soaked and killed is the tests' own.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from rig.killing import KillReport, kill_under_load
from rig.serve import ServedNode

MIB = 1024 * 1024
PINGS_A_SECOND = 10
TABLE_SHARE = 0.1  # of all records
LINE_EVERY_SECONDS = 10
UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The node in one second."""

    second: int
    rss_mib: float
    helper_mib: float
    descriptors: int
    threads: int
    cpu_percent: float
    lag_ms: float  # the longest that a question without work took to be answered
    acked: int
    tailed: int
    faults: int

    @property
    def line(self) -> str:
        return (
            f"{self.second:6d} s  rss {self.rss_mib:6.1f} MiB  helper {self.helper_mib:5.1f} MiB  "
            f"fds {self.descriptors:4d}  threads {self.threads:2d}  cpu {self.cpu_percent:3.0f} %  "
            f"lag {self.lag_ms:6.1f} ms  acked {self.acked:,}  read {self.tailed:,}  "
            f"faults {self.faults}"
        )


class Sampler:
    """Looks at the node from outside once a second."""

    def __init__(self, node: ServedNode, ledger: Ledger) -> None:
        self._process = psutil.Process(node.pid)
        self._ledger = ledger
        self._asking = Asking(address_of(node))
        self._started = time.monotonic()
        self._process.cpu_percent()

    def sample(self) -> Sample:
        """Takes a second."""
        lag_ms = 0.0
        until = time.monotonic() + 1
        while (left := until - time.monotonic()) > 0:
            asked = time.perf_counter()
            self._asking.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
            lag_ms = max(lag_ms, (time.perf_counter() - asked) * 1000)
            time.sleep(min(left, 1 / PINGS_A_SECOND))
        counts = self._ledger.counts()
        return Sample(
            second=round(time.monotonic() - self._started),
            rss_mib=self._process.memory_info().rss / MIB,
            helper_mib=sum(resident(child) for child in self._process.children()) / MIB,
            descriptors=self._process.num_fds(),
            threads=self._process.num_threads(),
            cpu_percent=self._process.cpu_percent(),
            lag_ms=lag_ms,
            acked=counts["acked"],
            tailed=counts["tailed"],
            faults=len(self._ledger.faults),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="constant load for a while")
    run.add_argument("--for", dest="seconds", type=seconds_of, default=3600, help="90s, 15m, 1h")
    run.add_argument("--rate", type=int, default=2500, help="records a second, of 1,000 bytes")
    run.add_argument("--samples", type=Path, help="a file for one line of JSON each second")
    kills = commands.add_parser("kills", help="SIGKILL under load")
    kills.add_argument("--count", type=int, default=50)
    kills.add_argument("--fsync", choices=["on", "off"], default="on", help="penstock.ack.fsync")
    add_arguments(commands.add_parser("exactly-once", help="a pipeline that is killed at work"))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as folder:
        if chosen.command == "run":
            is_good = soak(chosen, Path(folder))
        elif chosen.command == "exactly-once":
            is_good = exactly_once(chosen, Path(folder))
        else:
            is_good = kill(chosen, Path(folder))
    sys.exit(0 if is_good else 1)


def soak(chosen: argparse.Namespace, folder: Path) -> bool:
    node = ServedNode(data=folder / "data", settings=NODE_SETTINGS)
    node.start()
    ledger = Ledger()
    samples: list[Sample] = []
    try:
        make_topics(node.bootstrap)
        sampler = Sampler(node, ledger)
        threads = [work(worker, ledger) for worker in workers_of(node, ledger, chosen.rate)]
        with recording(chosen.samples) as record:
            watch(sampler, chosen.seconds, samples, record)
        ledger.stop.set()
        join(threads, ledger)
    finally:
        status = node.stop()
    ledger.expect(status == 0, f"the node ended with status {status}")
    return verdict(samples, ledger, node)


def workers_of(node: ServedNode, ledger: Ledger, rate: int) -> list[Worker]:
    bootstrap, address = node.bootstrap, address_of(node)
    stream_rate = round(rate * (1 - TABLE_SHARE) / len(PRODUCERS))
    streamers: list[Worker] = [
        Streamer(bootstrap, ledger, partition=index, rate=stream_rate)
        for index in range(len(PRODUCERS))
    ]
    return [
        *streamers,
        Tailer(bootstrap, ledger, name="first tailer"),
        Tailer(bootstrap, ledger, name="second tailer"),
        Reader(bootstrap, ledger),
        TableKeeper(bootstrap, ledger, rate=round(rate * TABLE_SHARE)),
        Visitor(bootstrap, ledger),
        Caller(address, ledger, topic_id=topic_id_of(address, STREAM)),
    ]


def watch(sampler: Sampler, seconds: int, samples: list[Sample], record: TextIO | None) -> None:
    """Samples until the time is over, or somebody has had enough."""
    live = sys.stdout.isatty()
    try:
        while not samples or samples[-1].second < seconds:
            samples.append(sampler.sample())
            if record is not None:
                record.write(json.dumps(asdict(samples[-1])) + "\n")
                record.flush()
            if live:
                print(f"\r{samples[-1].line}", end="", flush=True)
            elif len(samples) % LINE_EVERY_SECONDS == 0:
                print(samples[-1].line, flush=True)
    except KeyboardInterrupt:
        pass
    if live:
        print()


def join(threads: list[threading.Thread], ledger: Ledger) -> None:
    for thread in threads:
        thread.join(120)
        ledger.expect(not thread.is_alive(), f"{thread.name} does not come to its end")


def verdict(samples: list[Sample], ledger: Ledger, node: ServedNode) -> bool:
    if len(samples) < 4:
        print("too short to judge")
        return False
    print(f"\n{samples[-1].second} s, {sys.version.split()[0]}")
    flat = True
    for name, unit, slack in (
        ("rss_mib", "MiB", 2.0),
        ("helper_mib", "MiB", 4.0),
        ("descriptors", "", 8.0),
        ("threads", "", 1.0),
    ):
        curve = [float(getattr(sample, name)) for sample in samples]
        found = flatness_of(curve, slack=slack)
        flat = flat and found.is_flat
        print(
            f"{name:12} {'flat' if found.is_flat else 'GROWS':6} second quarter "
            f"{found.second_quarter:.1f} {unit}, last {found.last_quarter:.1f} {unit} "
            f"({found.growth:+.1%}); least {min(curve):.1f}, most {max(curve):.1f}"
        )
        print(f"             {drawn(curve)}")
    lags = sorted(sample.lag_ms for sample in samples)
    shown = ", ".join(f"p{share:g} {at(lags, share):.1f}" for share in (50, 90, 99, 100))
    print(f"{'lag_ms':12} longest of each second: {shown}")
    print(f"             {drawn([sample.lag_ms for sample in samples])}")
    cpu = sum(sample.cpu_percent for sample in samples) / len(samples)
    print(f"{'cpu':12} {cpu:.1f} % of a core, on average")
    for what, number in sorted(ledger.counts().items()):
        print(f"{what:24} {number:,}")
    errors = [
        line
        for line in node.logged().splitlines()
        if "level=error" in line or "level=critical" in line
    ]
    for line in errors[:5]:
        print(f"logged: {line}")
    for fault in ledger.faults[:20]:
        print(f"FAULT: {fault}")
    print(f"faults: {len(ledger.faults)}; verdict: {'flat' if flat else 'NOT FLAT'}")
    return flat and not ledger.faults


def kill(chosen: argparse.Namespace, folder: Path) -> bool:
    def told(report: KillReport) -> None:
        print(f"\r{report.line}", end="", flush=True)

    settings = {"penstock.ack.fsync": "true" if chosen.fsync == "on" else "false"}
    node = ServedNode(data=folder / "data", settings=settings)
    started = time.monotonic()
    node.start()
    try:
        report = kill_under_load(node, kills=chosen.count, told=told)
    finally:
        if node.running:
            node.stop()
    print(f"\nfsync acks {chosen.fsync}: {report.line}; {time.monotonic() - started:.1f} s in all")
    for fault in report.faults[:20]:
        print(f"FAULT: {fault}")
    return not report.faults


@contextmanager
def recording(path: Path | None) -> Iterator[TextIO | None]:
    if path is None:
        yield None
    else:
        with open(path, "w", encoding="utf-8") as file:
            yield file


def address_of(node: ServedNode) -> tuple[str, int]:
    host, port = node.bootstrap.rsplit(":", 1)
    return host, int(port)


def topic_id_of(address: tuple[str, int], topic: str) -> bytes:
    with Asking(address) as asking:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        return asking.ask(request, MetadataResponse, 12).topics[0].topic_id


def resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))]


def seconds_of(text: str) -> int:
    found = re.fullmatch(r"(\d+)([smh]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 15m or 1h")
    return int(found[1]) * UNITS[found[2] or "s"]


if __name__ == "__main__":
    main()
