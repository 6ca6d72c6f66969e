"""A leader is cut off from the other nodes, in several ways, while producers write.

Beside what holds after any ordeal, a leader that is cut off acks nothing with acks of all.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from threading import Event, Thread
from typing import Protocol, assert_never

from penstock.model.error import ErrorCode
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from rig.cluster_questions import until
from rig.dialogue import Dialogue
from rig.failover.acked_records import AckedRecords, NoProgress, value_of
from rig.failover.cluster import ReplicatedCluster
from rig.failover.load import LedgerLoad
from rig.failover.producers import ALL
from rig.failover.proof import faults_at_the_end
from rig.failover.questions import create_replicated, partition_states, until_in_sync

TOPIC = "ledger"
PARTITIONS = 6
PROBE_TIMEOUT_MS = 500
PROBES_MIN = 3  # of each cut: what a cut-off leader does was seen
UNANSWERED_SECONDS = 0.5
AFTERWARDS_SECONDS_MAX = 3.0  # how long it stays cut off when others lead


class Network(Protocol):
    """What can be lost between nodes; `CLIENTS` of `namespaces.py` are the clients."""

    def cut(self, source: int, target: int) -> None: ...

    def heal(self) -> None: ...


class Cut(Enum):
    NODES = "a leader is cut off from the other nodes, and not from clients"
    OUTWARDS = "what a leader sends to the other nodes is lost"
    INWARDS = "what the other nodes send to a leader is lost"
    ALONE = "a leader is cut off from the other nodes and from clients"
    ANSWERS = "what a leader answers to clients is lost, and soon it is cut off from all"


def cut_off(
    network: Network,
    cut: Cut,
    node: int,
    others: Iterable[int],
    *,
    clients: int,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """One node, until the network is healed."""
    match cut:
        case Cut.NODES | Cut.OUTWARDS | Cut.INWARDS:
            ends = [*others]
        case Cut.ALONE:
            ends = [*others, clients]
        case Cut.ANSWERS:
            # What is under way comes to all replicas, and its producer does not hear of it.
            network.cut(node, clients)
            wait(UNANSWERED_SECONDS)
            network.cut(clients, node)
            ends = [*others]
        case _:
            assert_never(cut)
    for end in ends:
        if cut is not Cut.INWARDS:
            network.cut(node, end)
        if cut is not Cut.OUTWARDS:
            network.cut(end, node)


@dataclass(slots=True, kw_only=True)
class NetworkReport:
    """How far it has come, and at the end what is wrong."""

    clients: str = ""  # that have written
    cuts: Counter[Cut] = field(default_factory=Counter)
    probes: int = 0  # requests to leaders that were cut off
    refusals: Counter[str] = field(default_factory=Counter)  # what they answered
    acked: int = 0
    unplaced: int = 0
    open: int = 0
    errors: str = ""
    faults: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        return (
            f"{self.cuts.total()} cuts, {self.probes} requests to leaders that were cut off,"
            f" answered with {dict(self.refusals)}; {self.acked:,} records acked,"
            f" {self.unplaced} of them without an offset, {self.open} open,"
            f" {len(self.faults)} broken promises; clients: {self.clients}"
        )


class NetworkOrdeal:
    """Of one cluster, which runs: `strike` as often as wanted, then `finish`."""

    def __init__(
        self,
        cluster: ReplicatedCluster,
        network: Network,
        *,
        clients: int,
        seed: int,
        rate: float,
        java: list[str] | None,
        acks: str = ALL,
    ) -> None:
        self.report = NetworkReport()
        self._cluster, self._network, self._clients = cluster, network, clients
        self._random = random.Random(seed)
        self._acks = acks
        create_replicated(cluster, TOPIC, partitions=PARTITIONS)
        self._probed = AckedRecords("probe", partitions=PARTITIONS)
        self._load = LedgerLoad(
            cluster.bootstrap, TOPIC, partitions=PARTITIONS, rate=rate, java=java, acks=acks
        )
        self.report.clients = self._load.clients

    def strike(self, cut: Cut) -> None:
        """The network is whole again when it returns; the cluster may not be in sync yet."""
        until_in_sync(self._cluster, TOPIC)
        self._load.until_more_acked()
        leader = self._random.choice(sorted(self._leaders(self._cluster.addresses[1])))
        others = [one for one in self._cluster.nodes if one != leader]
        with self._lost(cut, leader, others):
            if cut in (Cut.ALONE, Cut.ANSWERS):
                self._until_others_lead(leader, others)
            else:
                with self._probing(leader):
                    self._until_others_lead(leader, others)
        self.report.cuts[cut] += 1
        self._count()

    def finish(self) -> NetworkReport:
        try:
            until_in_sync(self._cluster, TOPIC)
            self._load.until_more_acked()
        except (NoProgress, AssertionError) as error:
            self.report.faults.append(str(error))
        self._load.finish()
        self._count()
        self.report.faults += self._load.faults
        self.report.faults += faults_at_the_end(
            self._cluster, TOPIC, [*self._load.records, self._probed], partitions=PARTITIONS
        )
        return self.report

    def _leaders(self, address: str) -> set[int]:
        states = partition_states(address, TOPIC).values()
        return {state.leader for state in states if state.leader is not None}

    @contextmanager
    def _lost(self, cut: Cut, leader: int, others: list[int]) -> Iterator[None]:
        try:
            cut_off(self._network, cut, leader, others, clients=self._clients)
            yield
        finally:
            self._network.heal()

    def _until_others_lead(self, leader: int, others: list[int]) -> None:
        def is_deposed() -> bool:
            shown = [partition_states(self._cluster.addresses[one], TOPIC) for one in others]
            return all(
                state.leader not in (None, leader) for states in shown for state in states.values()
            )

        until(f"others lead instead of node {leader}", is_deposed)
        time.sleep(self._random.uniform(0, AFTERWARDS_SECONDS_MAX))

    @contextmanager
    def _probing(self, leader: int) -> Iterator[None]:
        """Asks the leader all the time, and returns when its last answer is there."""
        over = Event()
        before = self.report.probes

        def probe() -> None:
            with closing(Dialogue(self._cluster.addresses[leader], TOPIC)) as dialogue:
                while not over.is_set() or self.report.probes < before + PROBES_MIN:
                    try:
                        self._probe(dialogue, leader)
                    except (TimeoutError, ConnectionError) as error:
                        self.report.faults.append(f"node {leader} does not answer: {error!r}")
                        return

        thread = Thread(target=probe, name="probe")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _probe(self, dialogue: Dialogue, leader: int) -> None:
        number = self._probed.next_number()
        index = number % PARTITIONS
        record = Record(key=None, value=value_of("probe", number), timestamp_ms=now_ms())
        data = PartitionProduceData(index=index, records=build_batch([record]))
        request = ProduceRequest(
            acks=-1 if self._acks == ALL else int(self._acks),
            timeout_ms=PROBE_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        [answer] = dialogue.exchange(request, version=9).responses[0].partition_responses
        self.report.probes += 1
        self.report.refusals[ErrorCode(answer.error_code).name] += 1
        if answer.error_code == ErrorCode.NONE:
            self._probed.acked(number, partition=index, offset=answer.base_offset)
            where = f"partition {index} at offset {answer.base_offset}"
            self.report.faults.append(f"node {leader} was cut off, and acked {number} to {where}")

    def _count(self) -> None:
        load = self._load
        self.report.acked, self.report.unplaced = load.acked, load.unplaced
        self.report.open, self.report.errors = load.open, load.errors


def now_ms() -> int:
    return int(time.time() * 1000)


def run_cuts(
    ordeal: NetworkOrdeal, cuts: list[Cut], *, told: Callable[[str], None], seed: int
) -> None:
    """All of them in a random order."""
    random.Random(seed).shuffle(cuts)
    for number, cut in enumerate(cuts, 1):
        started = time.monotonic()
        ordeal.strike(cut)
        told(
            f"{number:3} of {len(cuts)} {cut.name.lower():8} {time.monotonic() - started:5.1f} s, "
            f"{ordeal.report.acked:,} acked, {ordeal.report.probes} probes"
        )
