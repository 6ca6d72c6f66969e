"""One seed of the quorum: replicas, a bad network, crashes, and the checks. `run_seed` is the face.

A run has a phase of faults and a calm one. In the calm phase every message arrives and every
replica runs; perhaps a minority stays down, or one voter can only send or only receive. Then a
leader must be found and a record be committed on all others, in bounded time.
"""

from collections.abc import Callable
from random import Random

from penstock.model.identity import NodeId
from penstock.model.offset import Offset
from penstock.raft.effects import Send
from penstock.raft.log_ends import LogEnd
from penstock.raft.messages import FetchRequest, Reply, VoteRequest
from penstock.raft.replica import Replica
from penstock.raft.roles.leader import Leader
from penstock.raft.times import Times
from penstock.raft.voter_changes import ChangeRefused, VoterChange
from penstock.raft.voters import ReplicaKey, VoterDetails, VoterEndpoint, VoterSet
from penstock.sim.quorum.checker import Checker
from penstock.sim.quorum.disk import LogEntry, ReplicaDisk, VoterBook
from penstock.sim.quorum.flaws import Flaw
from penstock.sim.quorum.network import Call, Network
from penstock.sim.quorum.outcome import Figures, Outcome
from penstock.sim.quorum.process import Outside, Process, Token
from penstock.sim.quorum.timeline import Timeline
from penstock.sim.quorum.violation import Violation

FAULTY_MS = 20_000
CALM_MS = 15_000  # within which the calm quorum has a leader, and all have its records
CALM_FETCHED_ENTRIES = 100
STEPS_MAX = 200_000
REQUEST_TIMEOUT_MS = 700
PAUSE_MS_MAX = 5_000


# What an event does; the numbers order events of the same time only by their sequence.
DELIVER, REPLY, TIMEOUT, TICK, SYNCED, CLIENT, FAULT, RESTART, REFUSED, HEAL, FALL, CHANGE = range(
    12
)


def run_seed(seed: int, *, flaw: Flaw | None = None, log_lines: bool = False) -> Outcome:
    """Runs one seed to its end, or to the first violation."""
    run = Run(seed, flaw=flaw, log_lines=log_lines)
    violation: str | None = None
    try:
        run.play()
    except Violation as error:
        violation = str(error)
    except AssertionError as error:
        violation = f"assertion failed: {error}"
    run.figures.acked = run.checker.acked
    run.figures.leaders = len(run.checker.leaders)
    run.figures.snapshots_installed = run.checker.installed
    run.figures.voter_changes = run.checker.voter_changes
    run.figures.virtual_ms = run.now_ms
    return Outcome(seed=seed, violation=violation, figures=run.figures, lines=run.lines)


class Run:
    """The world of one seed."""

    def __init__(self, seed: int, *, flaw: Flaw | None, log_lines: bool) -> None:
        self._timeline = Timeline(seed)
        self.random = self._timeline.random
        self.flaw = flaw
        self.figures = Figures()
        self.checker = Checker()
        self.lines: list[str] = []
        self._log_lines = log_lines
        self._calm = False
        self._next_value = 0
        self._calm_ms = 0  # when the calm phase began
        self._outside = Outside(
            self._send, self._reply, self._sync, self._fall_over, self._note if log_lines else None
        )
        draw = self.random
        count = draw.choice((1, 3, 3, 3, 3, 5, 5))
        self._times = Times(
            election_timeout_ms=500,
            fetch_timeout_ms=1_000,
            retry_backoff_ms=draw.choice((20, 100, 100)),
            fetch_wait_ms_max=300,  # with the slowest network, less than REQUEST_TIMEOUT_MS
        )
        self._network = Network(self._timeline)
        self._sync_ms = draw.choice((1, 5, 30, 150))
        self._snapshot_entries = draw.choice((5, 20, 1_000))
        self._fetched_entries_max = draw.choice((1, 3, 8))
        self._leaders_fall = draw.random() < 0.3  # most of them soon after their election
        self._fault_ms = draw.choice((300, 1_000, 2_500))
        # Drawn apart, so that seeds without changes are as they would be without this line.
        apart = Random(seed * 7 + 3)
        self._voters_change = apart.random() < 0.5
        with_directories = draw.random() < 0.5 or self._voters_change
        self._disks = {NodeId(n): ReplicaDisk(self._directory_id()) for n in range(count)}
        self.voters = VoterSet(
            ReplicaKey(node, disk.directory_id if with_directories else None)
            for node, disk in self._disks.items()
        )
        if draw.random() < 0.3:  # an observer
            self._disks[NodeId(count)] = ReplicaDisk(self._directory_id())
        if self._voters_change:
            for n in range(len(self._disks), count + 1 + int(apart.random() * 2)):
                self._disks[NodeId(n)] = ReplicaDisk(self._directory_id())
        self._change_ms = (300, 1_000, 3_000)[int(apart.random() * 3)]
        self._book = VoterBook()
        self._formatted = {  # with the first voters; an empty disk that comes later knows none
            disk.directory_id for node, disk in self._disks.items() if node < count
        }
        self._former_disks: dict[ReplicaKey, ReplicaDisk] = {}
        replaceable = count - self.voters.majority if with_directories else 0
        self._replaced: set[NodeId] = set()
        self._replaced_max = replaceable
        self._away: set[NodeId] = set()  # stay down in the calm phase
        self._excused: set[NodeId] = set()  # those, and the one that stays cut off
        self._processes: dict[NodeId, Process] = {}
        self._paused_until: dict[NodeId, int] = {}
        self._ticks: dict[NodeId, int] = {}
        self._probe: LogEnd | None = None

    @property
    def now_ms(self) -> int:
        return self._timeline.now_ms

    def play(self) -> None:
        for node in self._disks:
            self._timeline.at(self.random.randrange(300), RESTART, node)
        self._timeline.at(100, CLIENT, None)
        self._timeline.at(self.random.randrange(1, self._fault_ms), FAULT, None)
        if self._voters_change:
            self._timeline.at(1 + self._timeline.below(self._change_ms), CHANGE, None)
        while self.now_ms < FAULTY_MS:
            self._step()
        self._calm_down()
        until_ms = self.now_ms + CALM_MS
        while not self._all_have_a_new_record():
            if self.now_ms > until_ms:
                raise Violation(
                    f"no leader in {CALM_MS} ms of calm"
                    if self._probe is None
                    else f"{self._probe} is not committed everywhere in {CALM_MS} ms of calm"
                )
            self._step()

    def _step(self) -> None:
        kind, what = self._timeline.next_event()
        self.figures.steps += 1
        if self.figures.steps > STEPS_MAX:
            raise Violation(f"{STEPS_MAX} steps in {self.now_ms} ms: somebody spins")
        if kind == DELIVER:
            assert isinstance(what, Call)
            self._deliver(what)
        elif kind == REPLY:
            assert isinstance(what, tuple)
            self._deliver_reply(*what)
        elif kind == TICK:
            assert isinstance(what, Process)
            self._tick(what)
        elif kind == SYNCED:
            assert isinstance(what, tuple)
            self._synced(*what)
        elif kind == TIMEOUT:
            assert isinstance(what, Call)
            self._fail(what)
        elif kind == REFUSED:
            assert isinstance(what, Call)
            self._refused(what)
        elif kind == CLIENT:
            self._client()
        elif kind == FAULT:
            self._fault()
        elif kind == RESTART:
            assert isinstance(what, int)
            self._restart(NodeId(what))
        elif kind == FALL:
            assert isinstance(what, Process)
            self._fall(what)
        elif kind == CHANGE:
            self._change_voters()
        elif kind == HEAL:
            assert isinstance(what, frozenset)
            if not self._calm:
                self._network.cut -= what

    # Processes

    def _restart(self, node: NodeId) -> None:
        running = self._processes.get(node)
        if (running is not None and running.alive) or node in self._away:
            return
        process = Process(
            node_id=node,
            disk=self._disks[node],
            voters=self._first_voters(self._disks[node]),
            bootstrap=self._bootstrap(node),
            book=self._book,
            copies=self._copies,
            times=self._times,
            draw=self._timeline.below,
            checker=self.checker,
            outside=self._outside,
            flaw=self.flaw,
            fetched_entries_max=self._fetched_entries_max,
        )
        self._processes[node] = process
        self._note("start", node)
        process.replica.start(self.now_ms)
        self._settle(process)

    def _settle(self, process: Process) -> None:
        """After an event: effects are carried out, and the next tick is due."""
        process.carry_out()
        if not process.alive:
            return
        if self.flaw is Flaw.SHORT_WAIT_TWICE:
            process.hurry(self.now_ms)
        if self._leaders_fall and process.replica.leads and process.fall_ms is None:
            wait_ms = 1 + self._timeline.below(4 * self._network.latency_ms + self._sync_ms)
            process.fall_ms = self.now_ms + wait_ms
            self._timeline.at_time(process.fall_ms, FALL, process)
        due_ms = process.replica.next_deadline_ms()
        if due_ms is not None:
            due_ms = max(due_ms, self.now_ms + 1)
            known = self._ticks.get(process.node_id)
            if known is None or known <= self.now_ms or due_ms < known:
                self._ticks[process.node_id] = due_ms
                self._timeline.at_time(due_ms, TICK, process)

    def _runs(self, process: Process, kind: int, what: object) -> bool:
        """Whether an event reaches a process now; a paused one gets it when it goes on."""
        if not process.alive:
            return False
        until_ms = self._paused_until.get(process.node_id, 0)
        if until_ms > self.now_ms:
            self._timeline.at_time(until_ms, kind, what)
            return False
        return True

    def _tick(self, process: Process) -> None:
        if not self._runs(process, TICK, process):
            return
        if self._ticks.get(process.node_id) == self.now_ms:
            del self._ticks[process.node_id]
        process.replica.tick(self.now_ms)
        self._settle(process)

    def _sync(self, process: Process) -> None:
        if process.syncing:
            return
        process.syncing = True
        slow = self.random.random() < 0.02
        wait_ms = 1 + self._timeline.below(400 if slow else self._sync_ms)
        process.replica.begin_sync()
        self._timeline.at(wait_ms, SYNCED, (process, process.disk.changes))

    def _synced(self, process: Process, changes: int) -> None:
        if not self._runs(process, SYNCED, (process, changes)):
            return
        process.syncing = False
        process.disk.sync(changes)
        process.replica.synced(self.now_ms)
        self._settle(process)
        if process.alive:
            if process.disk.changes:
                self._sync(process)
            process.snapshot_if(self._snapshot_entries)

    # The network

    def _send(self, process: Process, send: Send) -> None:
        call = Call(process, send.to, send.number, send.request)
        if self.flaw is Flaw.REFORMATTED_VOTER_COUNTED and isinstance(call.request, VoteRequest):
            call.request.voter = ReplicaKey(call.request.voter.node_id, None)
        peer = self._processes.get(send.to)
        if (peer is None or not peer.alive) and not self._network.is_cut(process.node_id, send.to):
            return self._timeline.at(self._network.delay_ms(), REFUSED, call)
        self._timeline.at(REQUEST_TIMEOUT_MS, TIMEOUT, call)
        if self._network.arrives(process.node_id, send.to):
            self._timeline.at(self._network.delay_ms(), DELIVER, call)
            if not self._calm and self.random.random() < 0.02:
                self._timeline.at(self._network.delay_ms() * 5, DELIVER, call)
        return None

    def _deliver(self, call: Call) -> None:
        process = self._processes.get(call.to)
        if process is None or not process.alive:
            if call.sender.alive and not call.done:
                self._refused(call)
            return
        if not self._runs(process, DELIVER, call):
            return
        self._count_reformatted(process, call)
        process.replica.receive(call.request, Token(call.request, call), self.now_ms)
        self._settle(process)

    def _reply(self, process: Process, token: Token, reply: Reply) -> None:
        call = token.call
        assert isinstance(call, Call)
        if call.sender.alive and self._network.arrives(process.node_id, call.sender.node_id):
            self._timeline.at(self._network.delay_ms(), REPLY, (call, process.node_id, reply))

    def _deliver_reply(self, call: Call, sender: NodeId, reply: Reply) -> None:
        if call.done or not self._runs(call.sender, REPLY, (call, sender, reply)):
            return
        call.done = True
        call.sender.replica.receive_reply(sender, call.number, reply, self.now_ms)
        self._settle(call.sender)

    def _fail(self, call: Call) -> None:
        if not call.done and self._runs(call.sender, TIMEOUT, call):
            call.done = True
            call.sender.replica.failed(call.to, call.number, self.now_ms)
            self._settle(call.sender)

    def _refused(self, call: Call) -> None:
        """The other process does not run: a connection breaks, and a new one is refused."""
        if not call.done and self._runs(call.sender, REFUSED, call):
            call.done = True
            call.sender.replica.failed(call.to, call.number, self.now_ms)
            call.sender.replica.leader_refused(call.to, self.now_ms)
            self._settle(call.sender)

    # Clients

    def _client(self) -> None:
        """A record for everyone who believes to lead: a deposed leader must not ack its own."""
        for process in list(self._processes.values()):
            paused = self._paused_until.get(process.node_id, 0) > self.now_ms
            if process.alive and not paused and process.replica.leads:
                self._next_value += 1
                process.propose(self._next_value)
                self._settle(process)
        if not self._calm:
            self._timeline.at(1 + self._timeline.below(249), CLIENT, None)

    # Changes of the voters

    def _change_voters(self) -> None:
        """An operator asks whoever believes to lead, and never takes away a majority for good."""
        if self._calm:
            return
        self._timeline.at(1 + self._timeline.below(2 * self._change_ms), CHANGE, None)
        for process in list(self._processes.values()):
            paused = self._paused_until.get(process.node_id, 0) > self.now_ms
            if process.alive and not paused and process.replica.leads:
                self._change_voters_on(process)

    def _change_voters_on(self, leader: Process) -> None:
        now_ms = self.now_ms
        voters = leader.replica.voters
        kind = self.random.random()
        node = self.random.choice(list(self._disks))
        key = ReplicaKey(node, self._disks[node].directory_id)
        details = VoterDetails((VoterEndpoint("CONTROLLER", f"host{node}", self._next_value),))
        if kind < 0.15 and voters.includes(key):
            what, after = f"update {key}", voters.with_voter(key, details)
            done = self._change(leader, after, lambda one: one.update_voter(key, details, now_ms))
        elif node in voters.keys:
            key = voters.keys[node]  # perhaps one whose disk was replaced
            after = voters.without(node)
            if not after.keys or self._intact(after) < after.majority:
                return
            what = f"remove {key}"
            done = self._change(leader, after, lambda one: one.remove_voter(key, now_ms))
        else:
            what, after = f"add {key}", voters.with_voter(key, details)
            if self._intact(after) < after.majority:
                return
            done = self._change(leader, after, lambda one: one.add_voter(key, details, now_ms))
        if done:
            self._count(f"voter {what.split()[0]}")
            self._note(what, leader.node_id)
        self._settle(leader)

    def _change(
        self,
        leader: Process,
        after: VoterSet,
        change: Callable[[Replica], VoterChange | ChangeRefused],
    ) -> bool:
        """With a planted bug, the leader does not look at what it must wait for."""
        state = leader.replica.state
        role = state.role
        assert isinstance(role, Leader)
        pending = state.high_watermark <= state.voter_sets.latest.offset
        own_epoch = state.high_watermark > role.epoch_start
        hasty = self.flaw is Flaw.SECOND_CHANGE_TOO_EARLY and pending and own_epoch
        hasty = hasty or (self.flaw is Flaw.CHANGE_BEFORE_OWN_COMMIT and not own_epoch)
        if hasty:
            now_ms = self.now_ms
            return leader.change_voters(lambda _: leader.append_unchecked(after, now_ms))
        return leader.change_voters(change)

    def _first_voters(self, disk: ReplicaDisk) -> VoterSet:
        if self._voters_change and disk.directory_id not in self._formatted:
            return VoterSet(())
        return self.voters

    def _bootstrap(self, node: NodeId) -> tuple[NodeId, ...]:
        return tuple([one for one in self._disks if one != node]) if self._voters_change else ()

    def _intact(self, voters: VoterSet, without: NodeId | None = None) -> int:
        """How many of these voters still have the disk that they voted with."""
        return sum(
            self._disks[node].directory_id == key.directory_id
            for node, key in voters.keys.items()
            if node != without
        )

    def _can_lose(self, node: NodeId) -> bool:
        """Whether every set of voters that may be in force, now or later, can do without a disk."""
        if not self._voters_change:
            return node not in self._replaced and len(self._replaced) < self._replaced_max
        sets = [self.voters]
        for disk in self._disks.values():
            for entries in (disk.everything(), disk.durable):  # what was cut off may be back
                sets += [at.voters for at in self._book.named_in(entries, start=Offset(0))]
        return all(self._intact(one, node) >= one.majority for one in self._possible(sets))

    def _possible(self, sets: list[VoterSet]) -> list[VoterSet]:
        """The last committed set, and those that are only in some logs."""
        named = self._book.named_in(self.checker.committed, start=Offset(0))
        committed = [at.voters for at in named]
        if not committed:
            return [self.voters, *sets]
        return [committed[-1], *[one for one in sets if one not in committed]]

    def _copies(self, voters: VoterSet, offset: Offset, entry: LogEntry) -> int:
        """How many voters have an entry on disk, by their directory ids."""
        count = 0
        for node, key in voters.keys.items():
            disk: ReplicaDisk | None = self._disks[node]
            assert disk is not None
            if key.directory_id is not None and disk.directory_id != key.directory_id:
                disk = self._former_disks.get(key)
            count += disk is not None and disk.has_durable(offset, entry)
        return count

    def _count_reformatted(self, process: Process, call: Call) -> None:
        request = call.request
        if self.flaw is Flaw.REFORMATTED_ACK_COUNTED and isinstance(request, FetchRequest):
            known = process.replica.voters.keys.get(request.replica.node_id)
            if known is not None:
                request.replica = known

    # Faults

    def _fault(self) -> None:
        if self._calm:
            return
        kind = self.random.random()
        alive = [one for one in self._processes.values() if one.alive]
        if kind < 0.25 and alive:
            self._crash(self._victim(alive), power=self.random.random() < 0.7)
        elif kind < 0.3 and alive:
            self._victim(alive).effects_left = self._timeline.below(6)
        elif kind < 0.38:
            self._count("all crash")
            for process in alive:
                self._crash(process, power=True)
        elif kind < 0.5 and alive:
            self._pause(self._victim(alive))
        elif kind < 0.6 and alive:
            self._resign(self._victim(alive))
        elif kind < 0.66 and alive:
            self._replace_disk(self._victim(alive))
        else:
            self._partition()
        self._timeline.at(1 + self._timeline.below(2 * self._fault_ms - 1), FAULT, None)

    def _count(self, kind: str) -> None:
        self.figures.faults[kind] = self.figures.faults.get(kind, 0) + 1

    def _fall(self, process: Process) -> None:
        """A leader that has just been elected crashes."""
        if process.alive and process.replica.leads and not self._calm:
            self._crash(process, power=self.random.random() < 0.2)

    def _fall_over(self, process: Process) -> None:
        """A crash between two effects of one step."""
        self._count("crash amid a step")
        self._crash(process, power=self.random.random() < 0.5)

    def _resign(self, process: Process) -> None:
        if process.replica.leads:
            self._count("leader resigns")
            self._note("is told to resign", process.node_id)
        process.replica.resign(self.now_ms, for_good=False)
        self._settle(process)

    def _victim(self, alive: list[Process]) -> Process:
        """Leaders are hit more often than others."""
        leading = [one for one in alive if one.replica.leads]
        return self.random.choice(leading if leading and self.random.random() < 0.6 else alive)

    def _crash(self, process: Process, *, power: bool) -> None:
        kind = "power loss" if power else "kill"
        self._count(kind)
        self._note(kind, process.node_id)
        process.alive = False
        self._paused_until.pop(process.node_id, None)
        self._ticks.pop(process.node_id, None)
        if power:
            kept = self._timeline.below(process.disk.changes + 1)
            process.disk.crash(kept=kept, torn=self._timeline.below(self._fetched_entries_max + 1))
        self._timeline.at(self.random.choice((1, 50, 1_000, 4_000)), RESTART, process.node_id)

    def _pause(self, process: Process) -> None:
        until_ms = self.now_ms + 1 + self._timeline.below(PAUSE_MS_MAX - 1)
        self._count("pause")
        self._note(f"pauses until {until_ms}", process.node_id)
        self._paused_until[process.node_id] = until_ms

    def _replace_disk(self, process: Process) -> None:
        """An empty disk comes with another directory id; the node votes no more."""
        node = process.node_id
        if self._can_lose(node):
            self._replaced.add(node)
            self._crash(process, power=True)
            former = self._disks[node]
            self._former_disks[ReplicaKey(node, former.directory_id)] = former
            self._count("disk replaced")
            self._note("disk replaced", node)
            self._disks[node] = ReplicaDisk(self._directory_id())

    def _partition(self) -> None:
        nodes = list(self._disks)
        side = {node for node in nodes if self.random.random() < 0.4}
        one_way = self.random.random() < 0.4
        cut = {(a, b) for a in side for b in nodes if b not in side}
        if not one_way:
            cut |= {(b, a) for a, b in cut}
        kind = "one-way partition" if one_way else "partition"
        self._count(kind)
        self._note(f"{kind}: {sorted(side)} from the others")
        self._network.cut |= cut
        self._timeline.at(100 + self._timeline.below(5_900), HEAL, frozenset(cut))

    def _calm_down(self) -> None:
        self._calm = self._network.is_calm = True
        self._calm_ms = self.now_ms
        for process in self._processes.values():
            process.fetched_entries_max = CALM_FETCHED_ENTRIES
            process.effects_left = None
        self._fetched_entries_max = CALM_FETCHED_ENTRIES
        self._network.cut.clear()
        self._paused_until.clear()
        self._note("calm")
        if self.random.random() < 0.3:  # everybody begins anew, at about the same time
            for process in self._processes.values():
                if process.alive:
                    self._crash(process, power=True)
        lasting = self.random.random()
        if lasting < 0.3:
            self._keep_minority_down()
        elif lasting < 0.5:
            self._keep_one_cut_off()
        for node in self._disks:
            self._timeline.at(1, RESTART, node)
        self._timeline.at(1, CLIENT, None)

    def _keep_minority_down(self) -> None:
        """Some voters never come back; those that can vote are still a majority."""
        votes, spare = self._spare_votes()
        self._away.update(self.random.sample(votes, self._timeline.below(spare + 1)))
        self._excused |= self._away
        self._note(f"stay down: {sorted(self._away)}")
        for node in self._away:
            process = self._processes.get(node)
            if process is not None and process.alive:
                self._crash(process, power=False)

    def _keep_one_cut_off(self) -> None:
        """One voter sends and hears nothing, or hears and sends nothing: it must not disturb."""
        votes, spare = self._spare_votes()
        if spare == 0:
            return
        one = self.random.choice(votes)
        deaf = self.random.random() < 0.5
        for other in self._disks:
            if other != one:
                self._network.cut.add((other, one) if deaf else (one, other))
        self._excused.add(one)
        self._note("hears nothing from now on" if deaf else "is not heard from now on", one)

    def _spare_votes(self) -> tuple[list[NodeId], int]:
        """The voters whose disks were never replaced, and how many of them are not needed."""
        if self._voters_change:  # which set is in force may not be decided yet
            return [], 0
        votes = [node for node in self.voters.node_ids if node not in self._replaced]
        return votes, len(votes) - self.voters.majority

    def _all_have_a_new_record(self) -> bool:
        """Whether a record of the calm phase is committed on every node. The leader of the latest
        epoch appends it; one that is deposed meanwhile may lose it, and its successor has another.
        """
        processes = [one for one in self._processes.values() if one.node_id not in self._excused]
        leaders = [one for one in processes if one.alive and one.replica.leads]
        leader = max(leaders, key=lambda one: one.replica.epoch, default=None)
        if leader is None:
            self._probe = None
            return False
        if self._probe is None or self._probe.epoch != leader.replica.epoch:
            self._next_value += 1
            leader.propose(self._next_value)
            self._settle(leader)
            self._probe = LogEnd(leader.replica.epoch, leader.disk.end_offset)
            self.figures.calm_leader_ms = self.now_ms - self._calm_ms
        probe = self._probe
        return all(one.alive and one.replica.high_watermark >= probe.offset for one in processes)

    def _directory_id(self) -> bytes:
        return self.random.randbytes(16)

    def _note(self, what: str, node: NodeId | None = None) -> None:
        if self._log_lines:
            named = "" if node is None else f"node {node}: "
            self.lines.append(f"{self.now_ms:7} {named}{what}")
