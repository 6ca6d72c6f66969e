"""A cluster grows, moves partitions, shrinks and gets a new disk, while producers write.

Three nodes become five, half of the partitions move to the new ones, one half of those without a
throttle and the other with one; then the first two nodes are drained and removed, and the third one
is given an empty disk. What is acked must be there at the end, once, in order, on equal replicas.
A test has little of it; `bench/operating.py` has more. Two topics move together: `ledger`, which
producers write to and which is judged, and `ballast`, which makes copies last.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import confluent_kafka

from rig.clients.confluent import QUIET
from rig.cluster_questions import until
from rig.failover.acked_records import AckedRecords
from rig.failover.cluster import BRISK_SESSIONS
from rig.failover.proof import faults_at_the_end, unequal_replicas
from rig.failover.questions import (
    create_replicated,
    eventually_none,
    high_watermarks,
    is_in_sync,
    partition_states,
    until_in_sync,
)
from rig.operating.cluster import OperatedCluster
from rig.operating.copy_rates import CopyRates
from rig.operating.latency import Latency, TimedLedgerProducer, latency

LEDGER, BALLAST = "ledger", "ballast"
FIRST, ADDED = (1, 2, 3), (4, 5)
DRAINED, REPLACED = (1, 2), 3
RECORD_BYTES = 10_000
BALLAST_SECONDS_MAX = 600
SETTINGS = BRISK_SESSIONS
TOPIC_SETTINGS = {"segment.bytes": str(16 * 1024 * 1024)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    partitions: int  # of each of the two topics; a multiple of four
    ballast_records: int  # of each partition, of 10,000 bytes
    throttle_bytes: int  # a second
    quiet_seconds: float  # before and after: what produce takes when nothing is done
    producers: int = 2
    rate: float = 200  # records a second of each
    # How far the busiest node and direction may be from the throttle.
    throttle_below: float = 0.1
    throttle_above: float = 0.1

    def __post_init__(self) -> None:
        assert self.partitions % 4 == 0, self.partitions


FULL = Sizes(
    partitions=12, ballast_records=6_000, throttle_bytes=10_000_000, quiet_seconds=20, rate=500
)
# Fits into a test beside others: a machine that is busy may copy less than the throttle allows, and
# the second that may be saved up counts for more of a short copy.
SMALL = Sizes(
    partitions=4,
    ballast_records=150,
    throttle_bytes=1_000_000,
    quiet_seconds=1,
    producers=1,
    rate=100,
    throttle_below=0.5,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying:
    """A move of partitions: what was copied, and how fast while replicas were out of sync."""

    partitions: int
    copied_bytes: int
    throttle_bytes: int | None
    fetched_per_second: Mapping[int, float]
    sent_per_second: Mapping[int, float]
    busiest_per_second: float

    @property
    def of_throttle(self) -> float | None:
        """The busiest node and direction, as a share of the throttle."""
        return self.busiest_per_second / self.throttle_bytes if self.throttle_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    name: str
    seconds: float
    latency: Latency | None
    copying: Copying | None = None


@dataclass(slots=True, kw_only=True)
class OperatingReport:
    steps: list[Step] = field(default_factory=list)
    acked: int = 0
    open: int = 0  # records whose outcome no client knows
    faults: list[str] = field(default_factory=list)


class OperatingOrdeal:
    """Of one cluster of three nodes, which runs: `run` once. `begun` gets the name of each step,
    `told` a line when it is done.
    """

    def __init__(
        self,
        cluster: OperatedCluster,
        sizes: Sizes,
        *,
        told: Callable[[str], None],
        begun: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.report = OperatingReport()
        self._cluster = cluster
        self._sizes = sizes
        self._told = told
        self._begun = begun
        self._producers: list[TimedLedgerProducer] = []

    def run(self) -> OperatingReport:
        self._prepare()
        try:
            self._operate()
        except AssertionError as error:
            self.report.faults.append(str(error))
        self._finish()
        return self.report

    def _operate(self) -> None:
        cluster, sizes = self._cluster, self._sizes
        quarter = sizes.partitions // 4
        self._until_acked()  # connections are there
        with self._step("three nodes, nothing is done"):
            time.sleep(sizes.quiet_seconds)
        for number in ADDED:
            with self._step(f"node {number} is added, and votes"):
                cluster.add(number)
        self._move("a quarter moves, no throttle", range(quarter), throttle_bytes=None)
        self._move(
            f"a quarter moves, throttle {sizes.throttle_bytes:,} B/s",
            range(quarter, 2 * quarter),
            throttle_bytes=sizes.throttle_bytes,
        )
        with self._step("five nodes, nothing is done"):
            time.sleep(sizes.quiet_seconds)
        with self._step("nodes 1 and 2 are drained"):
            drained = ",".join(map(str, DRAINED))
            cluster.done("partitions", "reassign", "--drain", drained, "--watch")
        for number in DRAINED:
            with self._step(f"node {number} is removed"):
                cluster.remove(number)
        with self._step("node 3 gets an empty disk"):
            cluster.replace_disk(REPLACED)
            for topic in (LEDGER, BALLAST):
                until_in_sync(cluster, topic)
        with self._step("three nodes, nothing is done"):
            time.sleep(sizes.quiet_seconds)

    def _prepare(self) -> None:
        cluster, sizes = self._cluster, self._sizes
        for topic in (LEDGER, BALLAST):
            create_replicated(cluster, topic, partitions=sizes.partitions, settings=TOPIC_SETTINGS)
        total = sizes.partitions * sizes.ballast_records
        self._told(f"writes {total * RECORD_BYTES / 1e6:,.0f} MB of ballast")
        self._write_ballast()
        for number in range(sizes.producers):
            records = AckedRecords(f"producer-{number}", partitions=sizes.partitions)
            self._producers.append(
                TimedLedgerProducer(cluster.bootstrap, LEDGER, records, rate=sizes.rate)
            )

    def _write_ballast(self) -> None:
        failed: list[object] = []
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self._cluster.bootstrap, "log_level": QUIET, "acks": "all",
             "enable.idempotence": True, "batch.size": 100_000, "linger.ms": 5}
        )  # fmt: skip
        for number in range(self._sizes.ballast_records):
            for partition in range(self._sizes.partitions):
                producer.produce(
                    BALLAST,
                    os.urandom(RECORD_BYTES),
                    partition=partition,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )
            if number % 100 == 99:
                producer.flush(BALLAST_SECONDS_MAX)
        assert producer.flush(BALLAST_SECONDS_MAX) == 0
        assert not failed, failed[0]

    def _move(self, name: str, indexes: range, *, throttle_bytes: int | None) -> None:
        """To the two nodes that were added; one replica stays where it is."""
        cluster = self._cluster
        moves, added = [], {}
        for topic in (LEDGER, BALLAST):
            for index in indexes:
                kept = FIRST[index % len(FIRST)]
                replicas = [*(ADDED if index % 2 else reversed(ADDED)), kept]
                moves.append({"topic": topic, "partition": index, "replicas": replicas})
                added[topic, index] = list(ADDED)
        file = cluster.folder / "moves.json"
        file.write_text(json.dumps({"version": 1, "partitions": moves}))
        limit = () if throttle_bytes is None else ("--throttle", str(throttle_bytes))
        copied = self._stored(added)
        with CopyRates(cluster, added, until_topic=BALLAST) as rates, self._step(name) as step:
            cluster.done("partitions", "reassign", str(file), *limit, "--watch")
            copied = self._stored(added) - copied
        copying = Copying(
            partitions=len(moves),
            copied_bytes=copied,
            throttle_bytes=throttle_bytes,
            fetched_per_second=rates.fetched_per_second(),
            sent_per_second=rates.sent_per_second(),
            busiest_per_second=rates.busiest_per_second(),
        )
        step(copying)
        self._check(copying)

    def _check(self, copying: Copying) -> None:
        share = copying.of_throttle
        if share is None:
            return
        sizes = self._sizes
        if not 1 - sizes.throttle_below <= share <= 1 + sizes.throttle_above:
            self.report.faults.append(
                f"the busiest broker copied {copying.busiest_per_second:,.0f} bytes a second"
                f" with a throttle of {copying.throttle_bytes:,}"
            )

    def _stored(self, added: Mapping[tuple[str, int], list[int]]) -> int:
        """Bytes of the new replicas."""
        return sum(
            file.stat().st_size
            for (topic, index), nodes in added.items()
            for node in nodes
            for file in (self._cluster.data(node) / f"{topic}-{index}").glob("*.log")
        )

    @contextmanager
    def _step(self, name: str) -> Iterator[Callable[[Copying], None]]:
        """Notes how long it took, and what produce took meanwhile. What is yielded adds what was
        copied, later.
        """
        self._begun(name)
        began = time.monotonic()
        at = len(self.report.steps)

        def add(copying: Copying) -> None:
            step = self.report.steps[at]
            self.report.steps[at] = Step(
                name=step.name, seconds=step.seconds, latency=step.latency, copying=copying
            )

        yield add
        self._until_acked()
        ended = time.monotonic()
        step = Step(
            name=name,
            seconds=ended - began,
            latency=latency(self._producers, since=began, until=ended),
        )
        self.report.steps.append(step)
        produced = "" if step.latency is None else f", p99 of produce {step.latency.p99_ms:.1f} ms"
        self._told(f"{name}: {step.seconds:.1f} s{produced}")

    def _until_acked(self) -> None:
        """Each producer has been acked something that it sends from now on."""
        for producer in self._producers:
            records = producer.records
            wanted = records.sent + 1
            records.until(lambda r=records, w=wanted: r.count >= w, what="goes on")  # type: ignore[misc]

    def _finish(self) -> None:
        for producer in self._producers:
            producer.finish()
        promised = [producer.records for producer in self._producers]
        report, cluster, sizes = self.report, self._cluster, self._sizes
        report.acked = sum(one.count for one in promised)
        report.open = sum(one.open for one in promised)
        self._told(f"reads {report.acked:,} acked records, and compares replicas")
        report.faults += faults_at_the_end(cluster, LEDGER, promised, partitions=sizes.partitions)
        try:
            report.faults += self._ballast_faults()
        except AssertionError as error:
            report.faults.append(str(error))

    def _ballast_faults(self) -> list[str]:
        cluster = self._cluster
        until(f"{BALLAST} is in sync", lambda: is_in_sync(cluster, BALLAST))
        watermarks = high_watermarks(cluster, BALLAST)
        faults = [
            f"{BALLAST}-{index} ends at {end}, and {self._sizes.ballast_records} were acked"
            for index, end in watermarks.items()
            if end != self._sizes.ballast_records
        ]
        faults += eventually_none(lambda: unequal_replicas(cluster, BALLAST, watermarks))
        for topic in (LEDGER, BALLAST):
            states = partition_states(next(iter(cluster.addresses.values())), topic)
            faults += [
                f"{topic}-{index} is on {sorted(state.replicas)}"
                for index, state in states.items()
                if not state.replicas <= set(cluster.nodes)
            ]
        return faults
