"""One seed of a replicated partition: three nodes, a controller, a bad network, crashes, checks.

A run has a phase of faults and a calm one. In the calm phase every message arrives and every node
runs, perhaps all but one. Then a record must be acked, and all replicas be equal and in sync, in
bounded time. `run_seed` is the face.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from penstock.log.partition_log import PartitionLog
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.offset import Offset
from penstock.replication.follower import Follower, Position, Taken
from penstock.replication.followers import InSyncChange
from penstock.replication.partition import Partition
from penstock.sim.replication.checker import Checker
from penstock.sim.replication.controller import NO_LEADER, Controller, Image
from penstock.sim.replication.disk import ReplicaDisk
from penstock.sim.replication.flaws import ReplicationFlaw
from penstock.sim.replication.healing import ailment, compare_logs
from penstock.sim.replication.process import LAG_MS_MAX, Fetch, Process
from penstock.sim.replication.violation import Violation
from penstock.wire.messages.fetch import PartitionData

NODE_COUNT = 3
CONTROLLER = NodeId(NODE_COUNT)  # an end of links
FAULTY_MS = 4_000
CALM_MS = 8_000  # within which all replicas are equal and in sync
STEPS_MAX = 50_000
REQUEST_TIMEOUT_MS = 300
FETCH_WAIT_MS_MAX = 150
BACK_OFF_MS = 40
HEARTBEAT_MS = 150
SESSION_MS = 700
PAUSE_MS_MAX = 2_000


@dataclass(slots=True, kw_only=True)
class Figures:
    """What happened in a run."""

    steps: int = 0
    virtual_ms: int = 0
    faults: dict[str, int] = field(default_factory=dict)  # by kind
    leaders: int = 0
    acked: int = 0
    truncations: int = 0
    forgiven: int = 0  # elections that may have lost records, because nobody had them any more
    calm_ms: int = 0  # until everything was well again


@dataclass(slots=True, kw_only=True)
class Outcome:
    seed: int
    violation: str | None
    figures: Figures
    lines: list[str]


class Alter:
    """A request to the controller for another in-sync set."""

    __slots__ = ("broker_epoch", "change", "done", "number", "sender")

    def __init__(self, sender: Process, number: int, change: InSyncChange) -> None:
        self.sender = sender
        self.broker_epoch = sender.broker_epoch
        self.number = number
        self.change = change
        self.done = False


(
    FETCH, FETCHED, FETCH_LATE, FETCH_AGAIN, WAKE, RANGE, ALTER, ALTERED, ALTER_LATE, ALTER_AGAIN,
    LAG_ROUND, METADATA, REGISTER, HEARTBEAT, SESSIONS, SYNCED, CLIENT, FAULT, RESTART, REFUSED,
    HEAL, MOVE,
) = range(22)  # fmt: skip


def run_seed(seed: int, *, flaw: ReplicationFlaw | None = None, log_lines: bool = False) -> Outcome:
    """Runs one seed to its end, or to the first violation."""
    run = Run(seed, flaw=flaw, log_lines=log_lines)
    violation: str | None = None
    try:
        run.play()
    except Violation as error:
        violation = str(error)
    except AssertionError as error:
        violation = f"assertion failed: {error}"
    figures = run.figures
    figures.acked = run.checker.acked
    figures.leaders = run.controller.leaders_elected
    figures.forgiven = run.checker.forgiven
    figures.virtual_ms = run.now_ms
    return Outcome(seed=seed, violation=violation, figures=figures, lines=run.lines)


class Run:
    """The world of one seed."""

    def __init__(self, seed: int, *, flaw: ReplicationFlaw | None, log_lines: bool) -> None:
        self.random = Random(seed)
        self.flaw = flaw
        self.now_ms = 0
        self.figures = Figures()
        self.lines: list[str] = []
        self._log_lines = log_lines
        self._events: list[tuple[int, int, int, object]] = []
        self._sequence = 0
        self._calm = False
        self._calm_ms = 0  # when the calm phase began
        draw = self.random
        self._fsync = draw.random() < 0.4 or flaw is ReplicationFlaw.FETCH_BEFORE_SYNC
        self._latency_ms = draw.choice((2, 5, 15, 40))
        self._loss = draw.choice((0.0, 0.01, 0.05, 0.2))
        self._sync_ms = draw.choice((1, 5, 30))
        self._client_ms = draw.choice((10, 40, 120))
        self._fault_ms = draw.choice((150, 400, 1_000))
        self._segment_bytes = draw.choice((300, 2_000, 1_000_000))
        self._fetched_bytes_max = draw.choice((80, 300, 1_000_000))
        in_sync_min = draw.choice((1, 2, 2, 2, 2))
        self._changes_minimum = draw.random() < 0.3
        self._wipes = draw.random() < 0.3
        self._calm_away = NodeId(draw.randrange(NODE_COUNT)) if draw.random() < 0.2 else None
        self.checker = Checker(
            acks_wait_for_syncs=self._fsync,
            # This bug is for the check of acks; at the election it would be found before that.
            finds_second_leaders=flaw is not ReplicationFlaw.EPOCH_GIVEN_TWICE,
        )
        self.controller = Controller(NODE_COUNT, in_sync_min=in_sync_min, flaw=flaw)
        self._disks = [ReplicaDisk(node) for node in range(NODE_COUNT)]
        self._next_directory = NODE_COUNT
        self._processes: dict[NodeId, Process] = {}
        self._contact_ms = [0] * NODE_COUNT  # when the controller has last heard of a node
        self._published = 0
        self._paused_until: dict[NodeId, int] = {}
        self._cut: set[tuple[NodeId, NodeId]] = set()
        self._next_value = 0
        self._probe_epoch = 0  # in which records must be acked in the calm phase
        self._probe_acked = 0  # how many were before
        self._away: set[NodeId] = set()

    def play(self) -> None:
        for node in self.controller.nodes:
            self._at(1 + self._below(30), RESTART, node)
        self._at(SESSION_MS, SESSIONS, None)
        self._at(100, CLIENT, None)
        self._at(200 + self._below(self._fault_ms), FAULT, None)
        while self.now_ms < FAULTY_MS:
            self._step()
        self._calm_down()
        until_ms = self.now_ms + CALM_MS
        while not self._all_is_well():
            if self.now_ms > until_ms:
                raise Violation(
                    f"not healed in {CALM_MS} ms of calm: "
                    f"{ailment(self.controller.image, self._processes.values())}"
                )
            self._step()
        self.figures.calm_ms = self.now_ms - self._calm_ms
        compare_logs([one for one in self._processes.values() if one.node_id not in self._away])

    def _step(self) -> None:
        assert self._events, "somebody always waits for something"
        self.now_ms, _, kind, what = heappop(self._events)
        self.figures.steps += 1
        if self.figures.steps > STEPS_MAX:
            raise Violation(f"{STEPS_MAX} steps in {self.now_ms} ms: somebody spins")
        if kind in (FETCH, FETCHED, FETCH_LATE, WAKE):
            assert isinstance(what, Fetch)
            self._fetch_event(kind, what)
        elif kind == FETCH_AGAIN:
            assert isinstance(what, Process)
            if self._runs(what, kind, what):
                self._settle(what)
        elif kind in (ALTER, ALTERED, ALTER_LATE):
            assert isinstance(what, tuple)
            self._alter_event(kind, *what)
        elif kind in (ALTER_AGAIN, LAG_ROUND):
            assert isinstance(what, Process)
            self._look_for_changes(what, kind)
        elif kind == RANGE:
            assert isinstance(what, tuple)
            self._range(*what)
        elif kind == METADATA:
            assert isinstance(what, tuple)
            self._metadata(*what)
        elif kind == REGISTER:
            assert isinstance(what, Process)
            self._register(what)
        elif kind == HEARTBEAT:
            assert isinstance(what, Process)
            self._heartbeat(what)
        elif kind == SESSIONS:
            self._check_sessions()
        elif kind == SYNCED:
            assert isinstance(what, tuple)
            self._synced(*what)
        elif kind == CLIENT:
            self._client()
        elif kind == FAULT:
            self._fault()
        elif kind == RESTART:
            assert isinstance(what, int)
            self._restart(NodeId(what))
        elif kind == REFUSED:
            assert isinstance(what, Process)
            self._refused(what)
        elif kind == MOVE:
            assert isinstance(what, int)
            if not self._calm:
                self.controller.move_leader(NodeId(what))
        elif kind == HEAL:
            assert isinstance(what, frozenset)
            if not self._calm:
                self._cut -= what
        if self._published < len(self.controller.images):
            self._spread_images()

    # Processes

    def _restart(self, node: NodeId) -> None:
        running = self._processes.get(node)
        if (running is not None and running.alive) or node in self._away:
            return
        process = Process(
            node_id=node,
            node_count=NODE_COUNT,
            disk=self._disks[node],
            checker=self.checker,
            successors=self._successors,
            flaw=self.flaw,
            acks_wait_for_syncs=self._fsync,
            segment_bytes=self._segment_bytes,
            in_sync_min=self.controller.in_sync_min,
            now_ms=self.now_ms,
        )
        self._processes[node] = process
        self._note(
            f"starts, its log is [{process.log.start_offset}, {process.log.end_offset})", node
        )
        self._at(self._delay(), REGISTER, process)

    def _successors(self) -> list[tuple[NodeId, PartitionLog]]:
        """Who could be elected, as far as the controller knows; not those of whom it will learn
        that they have lost something.
        """
        found: list[tuple[NodeId, PartitionLog]] = []
        for node in self.controller.in_sync | self.controller.eligible:
            process = self._processes.get(node)
            if process is None or process.disk is not self._disks[node]:
                continue
            if not process.disk.lost_power:
                found.append((node, process.log))
        return found

    def _settle(self, process: Process) -> None:
        """After an event: the checks, and whatever the node wants to do next."""
        if not process.alive:
            return
        process.settle()
        for fetch in process.answer_parked(size_bytes_max=self._fetched_bytes_max):
            self._reply(process, fetch)
        replica = process.replica
        if replica is None:
            return
        if replica.wants_sync and not process.is_syncing:
            self._sync(process)
        if isinstance(replica, Follower):
            self._send_fetch(process)
        elif process.wants_change:
            self._ask_for_change(process)

    def _runs(self, process: Process, kind: int, what: object) -> bool:
        """Whether an event reaches a process now; a paused one gets it when it goes on."""
        if not process.alive:
            return False
        until_ms = self._paused_until.get(process.node_id, 0)
        if until_ms > self.now_ms:
            self._at_time(until_ms, kind, what)
            return False
        return True

    def _sync(self, process: Process) -> None:
        process.is_syncing = True
        files = process.log.unsynced_files()
        wait_ms = 1 + self._below(self._sync_ms)
        self._at(wait_ms, SYNCED, (process, files, process.log.end_offset))

    def _synced(self, process: Process, files: list[object], offset: Offset) -> None:
        if not self._runs(process, SYNCED, (process, files, offset)):
            return
        for file in files:
            file.sync()  # type: ignore[attr-defined]  # a File
        process.synced(offset)
        self._settle(process)

    # The controller

    def _register(self, process: Process) -> None:
        if not self._runs(process, REGISTER, process):
            return
        node = process.node_id
        if not self._arrives(node, CONTROLLER) or not self._arrives(CONTROLLER, node):
            self._at(REQUEST_TIMEOUT_MS, REGISTER, process)
            return
        disk = process.disk
        is_clean = not disk.lost_power
        if self.flaw is ReplicationFlaw.EPOCH_KEPT_BY_NEW_INCARNATION:
            is_clean = True
        process.broker_epoch = self.controller.register(
            node, clean=is_clean, directory_id=disk.directory_id
        )
        disk.lost_power = False
        self._contact_ms[node] = self.now_ms
        self._note(f"registers, broker epoch {process.broker_epoch}, clean {is_clean}", node)
        process.apply(self.controller.image, now_ms=self.now_ms)
        self._at(1, HEARTBEAT, process)
        self._at(LAG_MS_MAX // 2, LAG_ROUND, process)
        self._settle(process)

    def _heartbeat(self, process: Process) -> None:
        if not self._runs(process, HEARTBEAT, process):
            return
        node = process.node_id
        controller = self.controller
        self._at(HEARTBEAT_MS, HEARTBEAT, process)
        if controller.broker_epochs[node] != process.broker_epoch:
            return
        if self._arrives(node, CONTROLLER):
            self._contact_ms[node] = self.now_ms
            if controller.fenced[node]:
                self._note("is unfenced", node)
                controller.unfence(node)

    def _check_sessions(self) -> None:
        self._at(SESSION_MS // 7, SESSIONS, None)
        for node in self.controller.nodes:
            silent_ms = self.now_ms - self._contact_ms[node]
            if silent_ms > SESSION_MS and not self.controller.fenced[node]:
                self._note("is fenced by its session", node)
                self.controller.fence(node)

    def _is_heard_of(self, node: NodeId) -> bool:
        """Whether its session outlasts its next heartbeat. Nobody is left in sync by those who are
        silent: the controller of nodes sees to that (ADR 48), this small one does not.
        """
        return self.now_ms - self._contact_ms[node] <= SESSION_MS // 2

    def _refused(self, process: Process) -> None:
        """The connection of a process broke, and a new one is refused: it is dead."""
        node = process.node_id
        is_known = self.controller.broker_epochs[node] == process.broker_epoch
        if is_known and not self.controller.fenced[node]:
            self._note("is fenced by refusal", node)
            self.controller.fence(node)

    def _spread_images(self) -> None:
        """Every node gets the latest image, some time later; it may miss what was in between."""
        while self._published < len(self.controller.images):
            if self._log_lines:
                self._note(f"metadata: {self.controller.images[self._published]}")
            self._published += 1
        version = self._published - 1
        for process in self._processes.values():
            if process.alive and process.image is not None:
                wait_ms = self._delay()
                if not self._calm and self._below(4) == 0:
                    wait_ms += self._below(400)
                self._at(wait_ms, METADATA, (process, version))

    def _metadata(self, process: Process, version: int) -> None:
        if not self._runs(process, METADATA, (process, version)):
            return
        if self._is_cut(CONTROLLER, process.node_id):
            self._at(50, METADATA, (process, version))
            return
        image = self.controller.images[version]
        led = process.leads
        process.apply(image, now_ms=self.now_ms)
        if process.leads != led:
            self._note(
                f"{'leads' if not led else 'follows'} in epoch {image.leader_epoch}",
                process.node_id,
            )
        self._settle(process)

    # The in-sync set

    def _look_for_changes(self, process: Process, kind: int) -> None:
        if not self._runs(process, kind, process):
            return
        if kind == LAG_ROUND:
            self._at(LAG_MS_MAX // 2, LAG_ROUND, process)
        process.wants_change = True
        self._settle(process)

    def _ask_for_change(self, process: Process) -> None:
        change = process.next_change(now_ms=self.now_ms)
        process.settle()
        if change is None:
            return
        process.changes_sent += 1
        alter = Alter(process, process.changes_sent, change)
        self._note(f"asks for {change.members}", process.node_id)
        self._at(REQUEST_TIMEOUT_MS, ALTER_LATE, (alter, ErrorCode.REQUEST_TIMED_OUT, None))
        if self._arrives(process.node_id, CONTROLLER):
            self._at(self._delay(), ALTER, (alter, ErrorCode.NONE, None))
            if not self._calm and self._below(50) == 0:
                self._at(self._delay() * 5, ALTER, (alter, ErrorCode.NONE, None))

    def _alter_event(self, kind: int, alter: Alter, code: ErrorCode, image: Image | None) -> None:
        process = alter.sender
        if kind == ALTER:
            is_shrink = len(alter.change.members) < len(self.controller.in_sync)
            if is_shrink and not self._calm and self._below(2):
                self._change_minimum()  # just before
            answer = self.controller.alter(
                process.node_id, alter.broker_epoch, alter.number, alter.change
            )
            if answer is not None and self._arrives(CONTROLLER, process.node_id):
                self._at(self._delay(), ALTERED, (alter, answer, self.controller.image))
            return
        if alter.done or not self._runs(process, kind, (alter, code, image)):
            return
        alter.done = True
        if process.change_answered(alter.change, code, image, now_ms=self.now_ms):
            self._at(BACK_OFF_MS, ALTER_AGAIN, process)
        self._settle(process)

    # Fetches

    def _send_fetch(self, process: Process) -> None:
        if process.fetch_from_ms > self.now_ms:
            return
        fetch = process.next_fetch()
        if fetch is None:
            return
        node = process.node_id
        self._at(REQUEST_TIMEOUT_MS, FETCH_LATE, fetch)
        if self._arrives(node, fetch.to):
            self._at(self._delay(), FETCH, fetch)
            if not self._calm and self._below(50) == 0:
                self._at(self._delay() * 5, FETCH, fetch)

    def _fetch_event(self, kind: int, fetch: Fetch) -> None:
        if kind == FETCH:
            leader = self._processes.get(fetch.to)
            if leader is None or not self._runs(leader, kind, fetch):
                return
            if fetch.done:
                return self._deliver_again(leader, fetch)
            fetch.answer = leader.answer(
                fetch, size_bytes_max=self._fetched_bytes_max, now_ms=self.now_ms
            )
            fetch.done = True
            if fetch.answer is None:
                self._at(FETCH_WAIT_MS_MAX, WAKE, fetch)
            else:
                self._reply(leader, fetch)
            self._settle(leader)
        elif kind == WAKE:
            leader = self._processes.get(fetch.to)
            if leader is None or leader.parked.get(fetch.sender.node_id) is not fetch:
                return None
            if self._runs(leader, kind, fetch):
                del leader.parked[fetch.sender.node_id]
                fetch.answer = leader.answer_late(fetch, size_bytes_max=self._fetched_bytes_max)
                self._reply(leader, fetch)
        elif kind == FETCHED:
            self._fetched(fetch)
        elif fetch.sender.fetch is fetch and self._runs(fetch.sender, kind, fetch):
            fetch.sender.forget_fetch(fetch)
            self._settle(fetch.sender)
        return None

    def _deliver_again(self, leader: Process, fetch: Fetch) -> None:
        """A request that was delivered twice, the second time late: what it tells is old."""
        if leader.parked.get(fetch.sender.node_id) is fetch:
            return
        kept = leader.parked.get(fetch.sender.node_id)
        leader.answer(fetch, size_bytes_max=self._fetched_bytes_max, now_ms=self.now_ms)
        if kept is not None:
            leader.parked[fetch.sender.node_id] = kept
        else:
            leader.parked.pop(fetch.sender.node_id, None)
        self._settle(leader)

    def _reply(self, leader: Process, fetch: Fetch) -> None:
        if fetch.sender.alive and self._arrives(leader.node_id, fetch.sender.node_id):
            self._at(self._delay(), FETCHED, fetch)

    def _fetched(self, fetch: Fetch) -> None:
        process = fetch.sender
        if not self._runs(process, FETCHED, fetch):
            return
        if process.fetch is not fetch and self._below(2):
            return  # of a connection that was closed; some come all the same
        data = fetch.answer
        assert isinstance(data, PartitionData)
        taken = process.take(fetch, data, now_ms=self.now_ms)
        if taken is Taken.TRUNCATED:
            self.figures.truncations += 1
            self._note(f"cuts its log to {process.log.end_offset}", process.node_id)
        elif taken is Taken.REFUSED:
            process.fetch_from_ms = self.now_ms + BACK_OFF_MS
            self._at(BACK_OFF_MS, FETCH_AGAIN, process)
        elif taken is Taken.OUT_OF_RANGE:
            process.asks_range = True
            self._at(self._delay() * 2, RANGE, (process, fetch.to, fetch.asked))
        self._settle(process)

    def _range(self, process: Process, leader: NodeId, asked: Position) -> None:
        if not self._runs(process, RANGE, (process, leader, asked)):
            return
        other = self._processes.get(leader)
        if other is not None and other.alive and self._arrives(leader, process.node_id):
            process.restart_at(other, asked)
            self._note(f"begins anew at {process.log.end_offset}", process.node_id)
        process.asks_range = False
        self._settle(process)

    # The network

    def _arrives(self, sender: NodeId, receiver: NodeId) -> bool:
        if self._is_cut(sender, receiver):
            return False
        return self._calm or self.random.random() >= self._loss

    def _is_cut(self, sender: NodeId, receiver: NodeId) -> bool:
        return (sender, receiver) in self._cut

    def _delay(self) -> int:
        return 1 + self._below(self._latency_ms)

    # Clients

    def _client(self) -> None:
        """A record for everyone who believes to lead: a deposed leader must not ack its own."""
        for process in list(self._processes.values()):
            paused = self._paused_until.get(process.node_id, 0) > self.now_ms
            if process.alive and not paused and process.leads:
                self._next_value += 1
                process.produce(b"%d" % self._next_value, now_ms=self.now_ms)
                self._settle(process)
        self._at(1 + self._below(2 * self._client_ms), CLIENT, None)

    # Faults

    def _fault(self) -> None:
        if self._calm:
            return
        self._at(1 + self._below(2 * self._fault_ms), FAULT, None)
        alive = [one for one in self._processes.values() if one.alive]
        if not alive:
            return
        kind = self._below(100)
        if kind < 20:
            self._crash(self._victim(alive), power=False)
        elif kind < 30:
            self._crash(self._victim(alive), power=True)
        elif kind < 34:
            self._count("all crash")
            power = self._fsync and self._below(2) == 0
            for process in alive:
                self._crash(process, power=power)
        elif kind < 46:
            self._pause(self._victim(alive))
        elif kind < 64:
            self._partition()
        elif kind < 76:
            self._move_leader()
        elif kind < 82:
            self._change_minimum()
        elif kind < 88:
            self._wipe(self._victim(alive))
        elif kind < 94:
            self._count("sync")
            process = self._victim(alive)
            if not process.is_syncing:
                process.log.sync()
                process.disk.high_watermark = process.high_watermark
        else:
            process = self._victim(alive)
            if process.leads and self._paused_until.get(process.node_id, 0) <= self.now_ms:
                self._count("records deleted")
                process.delete_records()
                self._settle(process)

    def _victim(self, alive: list[Process]) -> Process:
        """Leaders are hit more often than others."""
        leading = [one for one in alive if one.leads]
        return self.random.choice(leading if leading and self._below(2) else alive)

    def _crash(self, process: Process, *, power: bool) -> None:
        kind = "power loss" if power else "kill"
        node = process.node_id
        self._count(kind)
        self._note(kind, node)
        process.stop()
        self._paused_until.pop(node, None)
        if power:
            process.disk.lose_power(self._below)
        if self._below(4) and not self._is_cut(node, CONTROLLER):
            self._at(1 + self._below(30), REFUSED, process)
        self._at(self.random.choice((1, 50, 400, 1_500)), RESTART, node)

    def _wipe(self, process: Process) -> None:
        """An empty disk: whoever starts with it must not be taken for what it was."""
        if not self._wipes:
            return
        node = process.node_id
        self._crash(process, power=False)
        self._count("disk replaced")
        self._note("disk replaced", node)
        if self.flaw is ReplicationFlaw.WIPED_TAKEN_FOR_CLEAN:
            self._disks[node] = ReplicaDisk(process.disk.directory_id)
            return
        self._disks[node] = ReplicaDisk(self._next_directory)
        self._disks[node].lost_power = True
        self._next_directory += 1

    def _pause(self, process: Process) -> None:
        until_ms = self.now_ms + 1 + self._below(PAUSE_MS_MAX)
        self._count("pause")
        self._note(f"pauses until {until_ms}", process.node_id)
        self._paused_until[process.node_id] = until_ms

    def _partition(self) -> None:
        nodes = [*self.controller.nodes, CONTROLLER]
        side = {node for node in nodes if self._below(5) < 2}
        one_way = self._below(5) < 2
        cut = {(a, b) for a in side for b in nodes if b not in side}
        if not one_way:
            cut |= {(b, a) for a, b in cut}
        kind = "one-way partition" if one_way else "partition"
        self._count(kind)
        self._note(f"{kind}: {sorted(side)} from the others")
        self._cut |= cut
        self._at(50 + self._below(1_500), HEAL, frozenset(cut))

    def _move_leader(self) -> None:
        """Another replica is chosen; often the old one again, perhaps before it knows."""
        self._count("leader moved")
        leader = self.controller.leader
        self.controller.move_leader(NodeId(self._below(NODE_COUNT)))
        if leader != NO_LEADER and self._below(3):
            self._at(self.random.choice((1, 50, 200)), MOVE, leader)

    def _change_minimum(self) -> None:
        if self._changes_minimum and self.controller.leader != NO_LEADER:
            self._count("min.insync.replicas changed")
            self.controller.require(3 - self.controller.in_sync_min)

    # The calm phase

    def _calm_down(self) -> None:
        self._calm = True
        self._calm_ms = self.now_ms
        self._cut.clear()
        self._paused_until.clear()
        self._fetched_bytes_max = 1_000_000
        self._client_ms = 100
        self._note("calm")
        for node in self.controller.nodes:
            self._at(1, RESTART, node)
        others = [one for one in self._processes.values() if one.node_id != self._calm_away]
        if self._calm_away is not None and all(
            one.alive and one.node_id in self.controller.in_sync and self._is_heard_of(one.node_id)
            for one in others
        ):
            self._away.add(self._calm_away)
            process = self._processes.get(self._calm_away)
            if process is not None and process.alive:
                self._crash(process, power=False)

    def _all_is_well(self) -> bool:
        """Whether all that run are in sync, with all records, and records of now are acked."""
        controller = self.controller
        if controller.is_stuck:
            if controller.elect_unclean():
                self.checker.forgive(Offset(0), epoch=controller.leader_epoch)
                self._spread_images()
            return False
        running = set(controller.nodes) - self._away
        if (
            controller.leader == NO_LEADER
            or controller.in_sync != running
            or controller.leader_epoch != self._probe_epoch
        ):
            self._probe_epoch = controller.leader_epoch
            self._probe_acked = self.checker.acked
            return False
        leader = self._processes[controller.leader].replica
        if not isinstance(leader, Partition) or self.checker.acked < self._probe_acked + 3:
            return False
        return all(
            one.alive
            and one.replica is not None
            and one.replica.leader_epoch == controller.leader_epoch
            and one.log.end_offset == leader.log.end_offset
            and one.log.epochs.latest == leader.log.epochs.latest
            for one in self._processes.values()
            if one.node_id in running
        )

    # Events

    def _count(self, kind: str) -> None:
        self.figures.faults[kind] = self.figures.faults.get(kind, 0) + 1

    def _below(self, bound: int) -> int:
        """A random number from 0 on; cheaper than `randrange`, which is drawn a lot."""
        return int(self.random.random() * bound)

    def _at(self, wait_ms: int, kind: int, what: object) -> None:
        self._at_time(self.now_ms + wait_ms, kind, what)

    def _at_time(self, time_ms: int, kind: int, what: object) -> None:
        self._sequence += 1
        heappush(self._events, (time_ms, self._sequence, kind, what))

    def _note(self, what: str, node: NodeId | None = None) -> None:
        if self._log_lines:
            named = "" if node is None else f"node {node}: "
            self.lines.append(f"{self.now_ms:7} {named}{what}")
