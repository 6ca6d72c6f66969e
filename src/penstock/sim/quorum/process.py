"""One replica on its disk: carries effects out as the driver of a real node does."""

from collections.abc import Callable
from typing import assert_never

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.raft.effects import (
    Answer,
    AnswerFetch,
    AnswerSnapshot,
    AppendFetched,
    AppendLeaderChange,
    AppendVoters,
    Became,
    Committed,
    Effect,
    InstallSnapshot,
    Persist,
    Send,
    StoreSnapshotPart,
    Sync,
    Truncate,
)
from penstock.raft.messages import (
    FetchReply,
    FetchRequest,
    FetchSnapshotReply,
    FetchSnapshotRequest,
    Refused,
    Reply,
    Request,
    Run,
    VoteReply,
    VoteRequest,
)
from penstock.raft.replica import Replica
from penstock.raft.roles.follower import Follower
from penstock.raft.roles.leader import Leader
from penstock.raft.roles.unattached import Unattached
from penstock.raft.times import SHORT_WAIT_MS_MAX, Draw, Times
from penstock.raft.voter_changes import ChangeRefused, VoterChange, append_voters
from penstock.raft.voter_history import NOT_IN_LOG, VotersAt
from penstock.raft.voters import ReplicaKey, VoterSet
from penstock.sim.quorum.checker import Checker
from penstock.sim.quorum.describing import described
from penstock.sim.quorum.disk import LEADER_CHANGE, LogEntry, ReplicaDisk, VoterBook
from penstock.sim.quorum.flaws import Flaw

SNAPSHOT_PART_ENTRIES = 16

# How many of these voters have an entry on disk, at this offset.
Copies = Callable[[VoterSet, Offset, LogEntry], int]


class Token:
    """A request that came in; `call` is the run's own."""

    __slots__ = ("call", "request")

    def __init__(self, request: Request, call: object) -> None:
        self.request = request
        self.call = call


class Outside:
    """How a process reaches the world; the run gives the functions."""

    __slots__ = ("crash", "note", "reply", "send", "sync")

    def __init__(
        self,
        send: Callable[["Process", Send], None],
        reply: Callable[["Process", Token, Reply], None],
        sync: Callable[["Process"], None],
        crash: Callable[["Process"], None],
        note: Callable[[str, NodeId], None] | None,
    ) -> None:
        self.send = send
        self.reply = reply
        self.sync = sync
        self.crash = crash
        self.note = note  # None where nobody reads the lines


class Process:
    """A running replica, from its start to its crash."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        disk: ReplicaDisk,
        voters: VoterSet,
        bootstrap: tuple[NodeId, ...],
        book: VoterBook,
        copies: Copies,
        times: Times,
        draw: Draw,
        checker: Checker,
        outside: Outside,
        flaw: Flaw | None,
        fetched_entries_max: int,
    ) -> None:
        self.node_id = node_id
        self.disk = disk
        self.alive = True
        self.syncing = False
        self.effects_left: int | None = None  # how many more are carried out before a crash
        self.fall_ms: int | None = None  # when it crashes because it was elected
        self.pending: list[tuple[Offset, LogEntry]] = []  # appended for clients, not acked yet
        self._checker = checker
        self._outside = outside
        self._flaw = flaw
        self.fetched_entries_max = fetched_entries_max
        self._first_voters = voters
        self._counts_itself = False  # although its log says that it is no voter
        self._book = book
        self._copies = copies
        self._checked = disk.start_offset  # how far the watermark was checked
        self._parts: list[LogEntry] = []
        self.replica = Replica(
            key=ReplicaKey(node_id, disk.directory_id),
            voters=voters,
            times=times,
            draw=draw,
            hard=disk.hard,
            log=disk.log_ends(),
            stored_voters=book.named_in(disk.everything(), start=Offset(0)),
            bootstrap=bootstrap,
        )

    def propose(self, value: int) -> None:
        """A client's record, if this replica leads."""
        if not self.replica.leads:
            return
        entry = LogEntry(self.replica.epoch, value)
        self.pending.append((self.disk.end_offset, entry))
        self.disk.append((entry,))
        self.replica.appended(self.disk.end_offset)
        self.carry_out()

    def change_voters(self, change: Callable[[Replica], VoterChange | ChangeRefused]) -> bool:
        """A change of the voters, if this replica leads; whether it was appended."""
        end_offset = self.replica.state.log.end_offset
        changed = change(self.replica)
        self.carry_out()
        return isinstance(changed, VoterChange) and changed.offset >= end_offset

    def append_unchecked(self, voters: VoterSet, now_ms: int) -> VoterChange | ChangeRefused:
        """What a leader with a planted bug does."""
        return append_voters(self.replica.state, voters, now_ms)

    def stored_voters(self) -> VotersAt:
        """Those that the disk names last."""
        named = self._book.named_in(self.disk.everything(), start=Offset(0))
        if named:
            return named[-1]
        return VotersAt(offset=NOT_IN_LOG, voters=self._first_voters)

    def carry_out(self) -> None:
        """Everything that the replica wants done, in order. A step without effects has changed
        nothing that `check` looks at.
        """
        if self._counts_itself:
            role = self.replica.state.role
            if isinstance(role, Leader):
                role.ends[self.node_id] = self.replica.synced_offset
        while self.replica.state.effects:
            effects = self.replica.take_effects()
            truncated = False
            for at, effect in enumerate(effects):
                if self.effects_left is not None:
                    if self.effects_left == 0:
                        return self._outside.crash(self)
                    self.effects_left -= 1
                if self._outside.note is not None:
                    self._note(effect)
                if isinstance(effect, Sync) and _is_followed_by_sync(effects, at):
                    continue  # one sync for all, begun when all of it is in the log
                self._carry_out(effect)
                truncated = truncated or isinstance(effect, Truncate)
            if truncated:
                self._checker.uses_voters(
                    self.replica.state.key,
                    used=self.replica.state.voter_sets.latest,
                    named=self.stored_voters(),
                )
            self.replica.check()
        return None

    def hurry(self, now_ms: int) -> None:
        """Waits for the next election as if it were the first, whoever else stands."""
        role = self.replica.state.role
        soon_ms = now_ms + self.replica.state.draw(SHORT_WAIT_MS_MAX)
        if isinstance(role, Unattached) and role.elect_ms is not None:
            role.elect_ms = min(role.elect_ms, soon_ms)
        elif isinstance(role, Follower) and role.lost and self.replica.state.is_voter:
            role.deadline_ms = min(role.deadline_ms, soon_ms)

    def snapshot_if(self, entries_min: int) -> None:
        """A snapshot of what is committed and durable here, when the log has grown long enough."""
        log = self.replica.state.log
        offset = Offset(min(self.replica.high_watermark, log.synced_offset))
        if offset - log.start_offset < entries_min:
            return
        snapshot = self.disk.make_snapshot(offset)
        self.replica.made_snapshot(snapshot)
        self.replica.trim(offset)

    def _carry_out(self, effect: Effect) -> None:
        disk = self.disk
        match effect:
            case Send():
                self._outside.send(self, effect)
            case AnswerFetch():
                self._reply(effect.token, self._fill(effect))
            case Answer():
                self._answer(effect)
            case AppendFetched():
                entries = effect.reply.records
                assert isinstance(entries, tuple)
                disk.append(entries)
            case Sync():
                if self._flaw is Flaw.FETCH_BEFORE_SYNC:
                    log = self.replica.state.log
                    log.begin_sync()
                    log.end_sync()
                self._outside.sync(self)
            case Committed():
                self._commit(effect.offset)
            case Persist():
                if self._flaw is not Flaw.VOTE_NOT_SYNCED:
                    self._checker.persists(self.node_id, disk.hard, effect.state)
                    disk.hard = effect.state
            case Truncate():
                self._truncate(effect.offset)
            case AppendLeaderChange():
                values = [LEADER_CHANGE]
                if effect.named:
                    values += [LEADER_CHANGE, self._book.value_of(effect.voters)]
                disk.append(tuple([LogEntry(effect.epoch, value) for value in values]))
            case AppendVoters():
                self._append_voters(effect)
            case Became():
                self._became(effect)
            case AnswerSnapshot():
                self._reply(effect.token, self._snapshot_part(effect))
            case StoreSnapshotPart():
                assert isinstance(effect.data, tuple)
                del self._parts[effect.position :]
                self._parts.extend(effect.data)
            case InstallSnapshot():
                self._install(effect.snapshot)
            case _:
                assert_never(effect)

    def _note(self, effect: Effect) -> None:
        """A line for the replay, of what decides elections and logs."""
        note = self._outside.note
        text = described(effect)
        if note is not None and text is not None:
            note(text, self.node_id)

    def _reply(self, token: object, reply: Reply) -> None:
        assert isinstance(token, Token)
        self._outside.reply(self, token, reply)

    def _answer(self, effect: Answer) -> None:
        reply = effect.reply
        token = effect.token
        assert isinstance(token, Token)
        request = token.request
        if isinstance(request, VoteRequest) and not request.pre_vote:
            assert isinstance(reply, VoteReply)
            if reply.granted:
                self._checker.voted(reply.epoch, self.replica.state.key, request.candidate)
        diverges = isinstance(reply, FetchReply) and reply.diverging is not None
        if diverges and self._flaw is Flaw.TRUNCATION_SKIPPED:
            assert isinstance(reply, FetchReply) and isinstance(request, FetchRequest)
            at = Offset(min(request.log_end.offset, self.disk.end_offset))
            reply.diverging = None
            reply = self._fill(AnswerFetch(token=token, reply=reply, from_offset=at))
        self._outside.reply(self, token, reply)

    def _fill(self, effect: AnswerFetch) -> FetchReply:
        """Puts the records into a reply."""
        disk = self.disk
        at = effect.from_offset - disk.start_offset
        entries = tuple(disk.entries[at : at + self.fetched_entries_max])
        runs: list[Run] = []
        for slot, entry in enumerate(entries):
            end = Offset(effect.from_offset + slot + 1)
            if runs and runs[-1].epoch == entry.epoch:
                runs[-1].end_offset = end
            else:
                runs.append(Run(epoch=entry.epoch, end_offset=end))
        reply = effect.reply
        reply.runs, reply.records = tuple(runs), entries
        reply.voter_sets = tuple(self._book.named_in(entries, start=effect.from_offset))
        if self._flaw is Flaw.WATERMARK_TOO_EARLY:
            reply.high_watermark = disk.end_offset
        return reply

    def _commit(self, offset: Offset) -> None:
        self._checker.commits(
            self.node_id, self.disk, epoch=self.replica.epoch, start=self._checked, end=offset
        )
        self._checked = offset
        leader = isinstance(self.replica.state.role, Leader)
        if leader and self._flaw is not Flaw.OLD_EPOCH_COMMITTED and offset <= self.disk.end_offset:
            last = Offset(offset - 1)
            voters, entry = self.stored_voters().voters, self.disk.everything()[last]
            self._checker.has_copies(
                self.replica.state.key,
                f"{entry} at {last}",
                self._copies(voters, last, entry),
                voters,
            )
        if self.replica.leads:
            while self.pending and self.pending[0][0] < offset:
                self._checker.acks(*self.pending.pop(0))

    def _became(self, effect: Became) -> None:
        role = self.replica.state.role
        self.pending.clear()
        if isinstance(role, Leader) and effect.role == role.name:
            self._checker.elected(effect.epoch, self.node_id, self.disk)
            key = self.replica.state.key
            self._checker.has_votes(effect.epoch, key, self.stored_voters().voters)
            if self._flaw is Flaw.OLD_EPOCH_COMMITTED:
                role.epoch_start = Offset(-1)

    def _snapshot_part(self, effect: AnswerSnapshot) -> FetchSnapshotReply:
        request: FetchSnapshotRequest = effect.request
        reply = FetchSnapshotReply(
            epoch=effect.epoch, leader_id=effect.leader_id, snapshot=request.snapshot
        )
        if request.snapshot != self.disk.snapshot:
            reply.error = Refused.SNAPSHOT_NOT_FOUND
            return reply
        content = self.disk.snapshot_content
        part = content[request.position : request.position + SNAPSHOT_PART_ENTRIES]
        reply.size, reply.position, reply.length = len(content), request.position, len(part)
        reply.data = part
        if request.position + len(part) >= len(content):  # as the receiver's driver does
            named = self._book.named_in(content, start=Offset(0))
            reply.voters = named[-1].voters if named else None
        return reply

    def _append_voters(self, effect: AppendVoters) -> None:
        before = self.stored_voters()
        key = self.replica.state.key
        self._checker.changes_voters(
            key, self.disk, epoch=effect.epoch, before=before, after=effect.voters
        )
        values = [LEADER_CHANGE] if effect.upgrades else []
        values.append(self._book.value_of(effect.voters))
        self.disk.append(tuple([LogEntry(effect.epoch, value) for value in values]))
        role = self.replica.state.role
        removed = not effect.voters.includes(key)
        if removed and self._flaw is Flaw.REMOVED_LEADER_COUNTED and isinstance(role, Leader):
            role.voters = before.voters  # in which it counts, as far as its log is durable
            self._counts_itself = True

    def _truncate(self, offset: Offset) -> None:
        named = self.stored_voters()
        self.disk.truncate(offset)
        if self._flaw is Flaw.VOTERS_NOT_TAKEN_BACK and named.offset >= offset:
            history = self.replica.state.voter_sets
            history.install(offset, named.voters)

    def _install(self, snapshot: SnapshotId) -> None:
        content = tuple(self._parts)
        self._parts = []
        assert len(content) == snapshot.offset, (len(content), snapshot)
        self._checker.installs(self.node_id, content)
        self.disk.install(snapshot, content)
        self._checked = snapshot.offset
        if self._flaw is Flaw.SNAPSHOT_WITHOUT_EPOCH:
            log = self.replica.state.log
            log.install(SnapshotId(snapshot.offset, LeaderEpoch(0)))
            log.snapshot = snapshot


def _is_followed_by_sync(effects: list[Effect], at: int) -> bool:
    return any(isinstance(later, Sync) for later in effects[at + 1 :])
