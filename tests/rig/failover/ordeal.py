"""Nodes of a cluster are killed, paused and robbed of their disks while producers write.

What was sent is acked at the end, and there once, at the offset that was acked, in order, and the
replicas are equal. A test has a few rounds; `bench/failover_ordeal.py` has many, of Penstock or of
Apache Kafka. What happens is drawn from a seed; when it happens is up to the machine.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from rig.cluster_questions import active_controller
from rig.failover.acked_records import NoProgress
from rig.failover.cluster import BRISK_SESSIONS, ReplicatedCluster
from rig.failover.load import LedgerLoad
from rig.failover.many_segments import (
    ACKS_OF_ALL,
    ACKS_OF_LEADER,
    SEGMENT_BYTES,
    ManySegments,
)
from rig.failover.producers import ALL
from rig.failover.proof import faults_at_the_end
from rig.failover.questions import (
    create_replicated,
    leader_of,
    partition_states,
    until_in_sync,
)
from rig.failover.recoveries import Recovery, unscanned
from rig.failover.truncations import Truncation, end_of_epoch

TOPIC = "ledger"
PARTITIONS = 6
TOPIC_SETTINGS = {"segment.bytes": str(SEGMENT_BYTES)}  # the least: logs of several segments
HURRIED = 0.3  # of the faults strike while the cluster is not yet whole again
DOWN_SECONDS_MAX = 2.0
STAGGER_SECONDS_MAX = 1.0  # between starts of nodes that were killed together
FIRST_START_SECONDS = 3.0  # a guess, until a start has been timed
BEHIND_SECONDS = 0.5  # how long followers stand still, so that a leader is ahead of them
AHEAD_ATTEMPTS_MAX = 5  # until a kill comes in the middle of a truncation
RECOVERY_ATTEMPTS_MAX = 5  # the same of a recovery
SESSION_SECONDS = int(BRISK_SESSIONS["broker.session.timeout.ms"]) / 1000


class Fault(Enum):
    LEADER = "the leader of a partition is killed"
    CONTROLLER = "the active controller is killed"
    FOLLOWER = "a node that is not the active controller is killed"
    TWO = "two nodes are killed at once"
    ALL = "all nodes are killed at once"
    AHEAD = "a leader is killed that is ahead of its followers, and again in the truncation"
    STARTING = "a node is killed, again in the recovery of its logs, and again as it starts"
    PAUSED = "a node stands still for longer than its session"
    WIPED = "a node is killed and its log.dirs wiped, its metadata directory kept"


KILLS = (
    Fault.LEADER,
    Fault.CONTROLLER,
    Fault.FOLLOWER,
    Fault.TWO,
    Fault.ALL,
    Fault.AHEAD,
    Fault.STARTING,
)


def schedule(seed: int, *, kills: int, pauses: int, wipes: int) -> list[Fault]:
    """The faults in a random order; kills are of all kinds in turn."""
    faults = [KILLS[number % len(KILLS)] for number in range(kills)]
    faults += [Fault.PAUSED] * pauses + [Fault.WIPED] * wipes
    random.Random(seed).shuffle(faults)
    return faults


@dataclass(slots=True, kw_only=True)
class OrdealReport:
    """How far it has come, and at the end what is wrong."""

    clients: str = ""  # that have written
    struck: Counter[Fault] = field(default_factory=Counter)
    kills: int = 0  # processes
    truncations: int = 0  # in the middle of which a node was killed
    recoveries: int = 0  # the same
    acked: int = 0
    unplaced: int = 0  # acks of duplicates that named no offset
    open: int = 0  # records that were sent and not acked
    errors: str = ""  # of those that clients gave up
    faults: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        return (
            f"{self.struck.total()} faults, {self.kills} processes killed,"
            f" {self.truncations} of them in the middle of a truncation,"
            f" {self.recoveries} in the middle of a recovery; {self.acked:,} records"
            f" acked, {self.unplaced} of them without an offset, {self.open} open,"
            f" {len(self.faults)} broken promises; clients: {self.clients}"
        )


class FailoverOrdeal:
    """Of one cluster, which runs: `strike` as often as wanted, then `finish`."""

    def __init__(
        self,
        cluster: ReplicatedCluster,
        *,
        seed: int,
        rate: float,
        java: list[str] | None,
        acks: str = ALL,
        topic: str = TOPIC,  # which is created
    ) -> None:
        self.report = OrdealReport()
        self._cluster = cluster
        self._topic = topic
        self._random = random.Random(seed)
        self._start_seconds = FIRST_START_SECONDS
        self._ahead = ManySegments("ahead", partitions=PARTITIONS, acks=ACKS_OF_LEADER)
        self._unscanned = ManySegments("unscanned", partitions=PARTITIONS, acks=ACKS_OF_ALL)
        create_replicated(cluster, topic, partitions=PARTITIONS, settings=TOPIC_SETTINGS)
        self._load = LedgerLoad(
            cluster.bootstrap, topic, partitions=PARTITIONS, rate=rate, java=java, acks=acks
        )
        self.report.clients = self._load.clients

    def strike(self, fault: Fault) -> None:
        """All nodes run again when it returns; they may not be in sync yet."""
        if fault is Fault.WIPED or self._random.random() >= HURRIED:
            until_in_sync(self._cluster, self._topic)
        self._load.until_more_acked()
        self._kinds()[fault]()
        self.report.struck[fault] += 1
        for number, node in self._cluster.nodes.items():
            if not node.running:
                self.report.faults.append(f"node {number} ended by itself")
                self._start([number])
        self._count()

    def finish(self) -> OrdealReport:
        """Waits until all is acked, and compares what the nodes have with what was acked."""
        try:
            until_in_sync(self._cluster, self._topic)
            self._load.until_more_acked()
        except (NoProgress, AssertionError) as error:
            self.report.faults.append(str(error))
        self._load.finish()
        self._count()
        self.report.faults += self._load.faults
        if self.report.struck[Fault.AHEAD] and not self.report.truncations:
            self.report.faults.append("no node was killed in the middle of a truncation")
        if self.report.struck[Fault.STARTING] and not self.report.recoveries:
            self.report.faults.append("no node was killed in the middle of a recovery")
        promised = [*self._load.records, self._ahead.records, self._unscanned.records]
        self.report.faults += faults_at_the_end(
            self._cluster, self._topic, promised, partitions=PARTITIONS
        )
        return self.report

    def _kinds(self) -> dict[Fault, Callable[[], None]]:
        return {
            Fault.LEADER: lambda: self._kill_and_start([self._leader()]),
            Fault.CONTROLLER: lambda: self._kill_and_start([self._controller()]),
            Fault.FOLLOWER: lambda: self._kill_and_start([self._other_than(self._controller())]),
            Fault.TWO: lambda: self._kill_and_start(self._some(2)),
            Fault.ALL: lambda: self._kill_and_start(self._some(len(self._cluster.nodes))),
            Fault.AHEAD: self._kill_ahead,
            Fault.STARTING: self._kill_starting,
            Fault.PAUSED: self._pause,
            Fault.WIPED: self._wipe,
        }

    # ---- faults

    def _kill_and_start(self, numbers: list[int]) -> None:
        self._kill(numbers)
        self._let_pass(DOWN_SECONDS_MAX)
        self._start(numbers)

    def _kill_ahead(self) -> None:
        """All replicas are in sync, or none could lead in its place. Done again where the second
        kill came too late.
        """
        before = self.report.truncations
        for _ in range(AHEAD_ATTEMPTS_MAX):
            until_in_sync(self._cluster, self._topic)
            self._kill_ahead_once()
            if self.report.truncations > before:
                return

    def _kill_ahead_once(self) -> None:
        partition = self._random.randrange(PARTITIONS)
        leader = leader_of(self._cluster, self._topic, partition)
        address = self._cluster.addresses[leader]
        leader_epoch = partition_states(address, self._topic)[partition].leader_epoch
        with self._stopped(one for one in self._cluster.nodes if one != leader):
            if not self._ahead.write(address, self._topic, partition):
                return  # it has just lost its leadership
            time.sleep(BEHIND_SECONDS)
            self._kill([leader])
        self._let_pass(DOWN_SECONDS_MAX)
        self._kill_truncating(leader, partition, leader_epoch=leader_epoch)
        self._start([leader])

    def _kill_truncating(self, number: int, partition: int, *, leader_epoch: int) -> None:
        """Once, or twice in the same truncation."""
        for _ in range(self._random.randint(1, 2)):
            truncation = Truncation(self._cluster.data(number) / f"{self._topic}-{partition}")
            self._cluster.nodes[number].begin()
            has_begun = truncation.until_begun()
            self._kill([number])
            cut_offset = end_of_epoch(
                self._cluster, self._topic, partition, leader_epoch=leader_epoch
            )
            if not has_begun or not truncation.is_half_done(
                cut_offset=cut_offset, leader_epoch=leader_epoch
            ):
                return
            self.report.truncations += 1

    def _kill_starting(self) -> None:
        """First where it has much to scan: segments that all replicas have, of one partition."""
        [number] = self._some(1)
        partition = self._random.randrange(PARTITIONS)
        until_in_sync(self._cluster, self._topic)
        leader = leader_of(self._cluster, self._topic, partition)
        self._unscanned.write(self._cluster.addresses[leader], self._topic, partition)
        self._kill([number])
        self._kill_recovering(number, partition)
        self._start_among_kills(number)

    def _kill_recovering(self, number: int, partition: int) -> None:
        """Done again where the kill came too late: a start leaves the same to the next one."""
        node, software = self._cluster.nodes[number], self._cluster.software
        for _ in range(RECOVERY_ATTEMPTS_MAX):
            segments = unscanned(self._cluster.data(number) / f"{self._topic}-{partition}")
            if not segments:
                return
            # Of the first half, so that there is more to scan behind it.
            segment = self._random.choice(segments[: (len(segments) + 1) // 2])
            recovery = Recovery(node, software, segment)
            node.begin()
            has_begun = recovery.until_begun()
            self._kill([number])
            if has_begun and not recovery.is_over():
                self.report.recoveries += 1
                return

    def _pause(self) -> None:
        number = self._leader() if self._random.random() < 0.5 else self._controller()
        with self._stopped([number]):
            time.sleep(SESSION_SECONDS * self._random.uniform(1.2, 2.0))

    def _wipe(self) -> None:
        number = self._other_than(self._controller())
        self._kill([number])
        self._cluster.wipe(number)
        self._let_pass(DOWN_SECONDS_MAX)
        self._start([number])

    # ---- whom, and how

    def _leader(self) -> int:
        return leader_of(self._cluster, self._topic, self._random.randrange(PARTITIONS))

    def _controller(self) -> int:
        return active_controller(self._cluster.addresses.values())

    def _other_than(self, number: int) -> int:
        return self._random.choice([one for one in self._cluster.nodes if one != number])

    def _some(self, count: int) -> list[int]:
        return self._random.sample(sorted(self._cluster.nodes), count)

    def _kill(self, numbers: list[int]) -> None:
        for number in numbers:
            os.kill(self._cluster.nodes[number].pid, signal.SIGKILL)
        for number in numbers:
            self._cluster.nodes[number].until_ended()
        self.report.kills += len(numbers)

    def _start(self, numbers: list[int]) -> None:
        """In this order, a random time apart; none is waited for before all were begun."""
        started = time.monotonic()
        nodes, ready = self._cluster.nodes, self._cluster.software.ready
        seen = {number: nodes[number].logged().count(ready) for number in numbers}
        for number in numbers:
            nodes[number].begin()
            if number != numbers[-1]:
                self._let_pass(STAGGER_SECONDS_MAX)
        for number in numbers:
            nodes[number].until_logged(ready, times=seen[number] + 1)
        self._start_seconds = time.monotonic() - started

    def _start_among_kills(self, number: int) -> None:
        """Killed once or twice more, at any moment from its start to its first fetches."""
        for _ in range(self._random.randint(1, 2)):
            self._cluster.nodes[number].begin()
            self._let_pass(self._start_seconds * 1.3)
            self._kill([number])
        self._start([number])

    @contextmanager
    def _stopped(self, numbers: Iterable[int]) -> Iterator[None]:
        stopped = [self._cluster.nodes[number].pid for number in numbers]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)

    def _let_pass(self, seconds_max: float) -> None:
        time.sleep(self._random.uniform(0, seconds_max))

    def _count(self) -> None:
        load = self._load
        self.report.acked, self.report.unplaced = load.acked, load.unplaced
        self.report.open, self.report.errors = load.open, load.errors
