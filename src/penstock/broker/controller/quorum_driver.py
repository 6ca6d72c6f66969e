"""Drives this node's replica of the metadata log: files, connections and time for `raft.Replica`.

Effects are carried out in their order and at once, so that what a message promises is on disk
before it leaves. Only the log's sync runs beside (`_keep_syncing`), since it takes long and happens
often; the replica counts a record when it is told that it is durable.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Protocol, assert_never

from penstock.broker.controller.metadata_journal import MetadataJournal
from penstock.broker.controller.voter_connections import VoterConnections
from penstock.model.error import PenstockError
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import METADATA_FETCH_BYTES_MAX
from penstock.model.offset import Offset, SnapshotId
from penstock.raft.description import QuorumDescription, describe_quorum
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
    BeginEpochRequest,
    FetchReply,
    FetchRequest,
    FetchSnapshotReply,
    Refused,
    Reply,
    Request,
)
from penstock.raft.replica import Replica
from penstock.raft.roles.leader import Leader
from penstock.raft.roles.resigned import Resigned
from penstock.raft.times import Times
from penstock.raft.voter_changes import RETRIABLE, ChangeRefused, VoterChange
from penstock.raft.voters import ReplicaKey, VoterDetails, VoterSet
from penstock.raft.wire_form.voters import details_of
from penstock.records.batch import whole_batches
from penstock.wire.messages.endpoints import NamedEndpoint
from penstock.world.ports import Address, World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

FAREWELL_WAIT_S = 0.5
CHANGE_RETRY_S = 0.02  # until a change of the voters is tried again
ADDRESSES_MAX = 100  # of leaders
FIRST_BOOTSTRAP_ID = NodeId(-2)  # as in Apache Kafka; the next ones go down from it


class Unanswered(PenstockError):
    """A request to another replica has no reply that can be used. `is_down`: its machine refused a
    connection, so the process has ended.
    """

    def __init__(self, reason: str, *, is_down: bool = False) -> None:
        super().__init__(reason)
        self.is_down = is_down


class LeadershipLost(PenstockError):
    """Another leader may or may not have what this one appended."""


class NodeTwice(PenstockError):
    """Another process is the same voter."""


class Peers(Protocol):
    """The other replicas."""

    async def ask(self, to: NodeId, request: Request) -> Reply:
        """Unanswered when there is no reply in time, or none that makes sense."""

    async def refused_stranger(self, request: Request) -> None:
        """This replica has refused a request because its sender is no voter here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumMember:
    """Who this replica is, and whom it belongs to."""

    key: ReplicaKey
    cluster_id: str
    voters: VoterSet
    endpoints: tuple[NamedEndpoint, ...]  # where its controller listener is
    times: Times
    request_timeout_ms: int
    latest_voters: VoterSet | None = None  # that the log names at the start, if it names any
    listener: str = ""  # of controllers, by which these are reached
    addresses: Mapping[NodeId, Address] = field(default_factory=dict)  # of fixed voters, by it
    bootstrap: tuple[Address, ...] = ()  # where voters may be found

    @property
    def is_alone(self) -> bool:
        """Whether it needs nobody to commit, when it starts."""
        voters = self.latest_voters or self.voters
        return voters.majority == 1 and voters.includes(self.key)

    @property
    def details(self) -> VoterDetails:
        """What a voter says of itself."""
        return details_of(self.endpoints)

    def bootstrap_ids(self) -> tuple[NodeId, ...]:
        """What the bootstrap servers are called while their ids are not known."""
        return tuple(NodeId(FIRST_BOOTSTRAP_ID - at) for at in range(len(self.bootstrap)))


def sole_voter(node_id: NodeId, *, directory_id: bytes, cluster_id: str) -> QuorumMember:
    """A node that is a quorum alone, with static voters: `kraft.version` 0 has no directory ids."""
    return QuorumMember(
        key=ReplicaKey(node_id, directory_id),
        cluster_id=cluster_id,
        voters=VoterSet([ReplicaKey(node_id, None)]),
        endpoints=(),
        times=Times(),
        request_timeout_ms=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Who is told what becomes of the quorum. `became` and `committed` are called in the middle of
    a step and must not call the driver; `settled` comes after it and may.
    """

    became: Callable[[Became], None]
    committed: Callable[[Offset], None]
    installed: Callable[[SnapshotId], None]  # a snapshot of the leader, in place of the log
    voters_appended: Callable[[], None]  # by this leader, to its log
    settled: Callable[[], None]


class QuorumDriver:
    """Keep `run` running; `receive` answers requests of other replicas."""

    def __init__(
        self, *, member: QuorumMember, log: MetadataJournal, world: World, listener: Listener
    ) -> None:
        self._member = member
        self._log = log
        self._world = world
        self._listener = listener
        self._peers: Peers | None = None
        self._tasks: TaskGroup | None = None
        self._unsent: list[Send] = []  # until `run` has connections
        self._failure: BaseException | None = None  # of an effect: the node ends
        self._down: set[NodeId] = set()  # those that refused the last connection
        self._voter_connections = VoterConnections()
        self._sooner = asyncio.Event()
        self._step = asyncio.Event()  # replaced when it is set
        self._sync_wanted = asyncio.Event()
        self._heard_addresses: dict[NodeId, Address] = {}  # of leaders, from replies and requests
        stored_voters = log.stored_voters()
        if stored_voters:
            log.voters = stored_voters[-1].voters
        self.replica = Replica(
            key=member.key,
            voters=member.voters,
            times=member.times,
            draw=world.entropy.random_below,
            hard=log.hard_state(),
            log=log.ends(),
            stored_voters=stored_voters,
            bootstrap=member.bootstrap_ids(),
        )
        log.voters = self.replica.voters

    def start(self) -> None:
        """Before `run`. A voter that is a majority alone leads, with all it has committed, when
        this returns.
        """
        self.replica.start(self._now_ms())
        self._carry_out()
        if self.is_alone:
            while self._sync_wanted.is_set():
                self._sync_wanted.clear()
                self.replica.begin_sync()
                self._log.sync()
                self._synced()

    async def run(self, peers: Peers | None) -> None:
        """Until cancelled. A failed write or sync ends it, and with it the node. A sole voter has
        no peers.
        """
        async with TaskGroup() as tasks:
            self._peers, self._tasks = peers, tasks
            for send in self._unsent:
                tasks.start(self._ask(send))
            self._unsent.clear()
            tasks.start(self._keep_syncing())
            tasks.start(self._keep_time())

    def receive(
        self, request: Request, connection: Hashable | None = None
    ) -> "asyncio.Future[Reply]":
        """The answer to a request of another replica; a fetch may wait for records."""
        if isinstance(request, FetchRequest) and connection is not None:
            self._note_fetch(request.replica, connection)
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.replica.receive(request, answer, self._now_ms())
        self._carry_out()
        if answer.done() and answer.result().error is Refused.INCONSISTENT_VOTER_SET:
            self._note_stranger(request)
        return answer

    @property
    def member(self) -> QuorumMember:
        return self._member

    def describe(self) -> QuorumDescription | None:
        """How far each replica has come; None where this one does not lead."""
        return describe_quorum(self.replica.state, self._now_ms())

    def may_be_replaced(self) -> bool:
        """Whether the other voters may have elected another leader: a majority of them has not
        fetched within the time after which they do. A leader resigns only later than that.
        """
        role, times = self.replica.state.role, self.replica.state.times
        if not isinstance(role, Leader):
            return True
        until_ms = role.quorum_until_ms(times.fetch_timeout_ms)
        return until_ms is not None and self._now_ms() >= until_ms

    @property
    def voters(self) -> VoterSet:
        """Those in force."""
        return self.replica.voters

    @property
    def is_alone(self) -> bool:
        """Whether it needs nobody to commit."""
        voters = self.replica.voters
        return voters.majority == 1 and voters.includes(self._member.key)

    @property
    def voters_text(self) -> str:
        """The voters in force and where they listen, for people."""
        return (
            ", ".join(
                f"{node}@{self.address_of(node) or 'unknown'}" for node in self.voters.node_ids
            )
            or "the voters, which are not known yet"
        )

    def address_of(self, node_id: NodeId) -> Address | None:
        """Where a voter, the leader or a bootstrap server listens; None while it is not known."""
        if node_id <= FIRST_BOOTSTRAP_ID:
            return self._member.bootstrap[FIRST_BOOTSTRAP_ID - node_id]
        endpoints = self.voters.details_of(node_id).endpoints
        for endpoint in endpoints:
            if endpoint.name.upper() == self._member.listener.upper():
                return Address(host=endpoint.host, port=endpoint.port)
        known = self._member.addresses.get(node_id)
        return self._heard_addresses.get(node_id) if known is None else known

    def leader_address(self, leader_id: NodeId) -> Address | None:
        """What others are told; this node's own listener may be known to nobody else yet."""
        if leader_id == self._member.key.node_id and self._member.endpoints:
            first = self._member.endpoints[0]
            return Address(host=first.host, port=first.port)
        return self.address_of(leader_id)

    def heard_address(self, node_id: NodeId, address: Address) -> None:
        """Where the leader listens, as others say: it may be none of the voters known here."""
        if node_id not in self._heard_addresses and len(self._heard_addresses) >= ADDRESSES_MAX:
            del self._heard_addresses[next(iter(self._heard_addresses))]
        self._heard_addresses[node_id] = address

    async def change_voters(
        self,
        change: Callable[[Replica, int], VoterChange | ChangeRefused],
        *,
        wait_ms_max: int,
        until_committed: bool = True,
    ) -> ChangeRefused | None:
        """Makes a change of the voters and waits until it is committed. What can be expected to
        become possible is tried again until the time is over. TimeoutError when it was appended
        and is not committed in time; LeadershipLost when it may not be done.
        """
        async with asyncio.timeout(wait_ms_max / 1000) as deadline:
            changed: VoterChange | ChangeRefused
            while True:
                changed = change(self.replica, self._now_ms())
                self._carry_out()
                when = deadline.when()
                left_s = 0.0 if when is None else when - asyncio.get_running_loop().time()
                if not isinstance(changed, ChangeRefused):
                    break
                if changed not in RETRIABLE or left_s <= 2 * CHANGE_RETRY_S:
                    return changed
                await asyncio.sleep(CHANGE_RETRY_S)
            epoch = self.replica.epoch
            while until_committed and self.replica.high_watermark <= changed.offset:
                if not self.replica.leads or self.replica.epoch != epoch:
                    raise LeadershipLost("the leader was deposed before the change was committed")
                await self._step.wait()
        return None

    @property
    def has_lost_majority(self) -> bool:
        """Whether so many voters refuse connections that nothing can be committed."""
        voters = self.voters
        down = sum(node in self._down for node in voters.node_ids)
        return len(voters.node_ids) - down < voters.majority

    async def look_for_voters(self) -> None:
        """Finds out who of the others still runs, for `has_lost_majority`. Those who follow know it
        from their own requests; a leader sends none while it is fetched from, and for a while
        after that.
        """
        peers, replica = self._peers, self.replica
        if peers is None or not replica.leads:
            return
        own_id = self._member.key.node_id
        for voter in self.voters.keys.values():
            if voter.node_id == own_id:
                continue
            try:
                await peers.ask(
                    voter.node_id,
                    BeginEpochRequest(epoch=replica.epoch, leader_id=own_id, voter=voter),
                )
            except Unanswered as error:
                if error.is_down:
                    self._down.add(voter.node_id)
            else:
                self._down.discard(voter.node_id)

    @property
    def log_start_offset(self) -> Offset:
        return self._log.start_offset

    def appended(self) -> None:
        """The leader's own records were appended to the log."""
        self.replica.appended(self._log.end_offset)
        self._carry_out()

    def trimmed(self, snapshot: SnapshotId) -> None:
        """A snapshot of committed records is on disk, and the log may begin later than before."""
        self.replica.made_snapshot(snapshot)
        self.replica.trim(self._log.start_offset)

    def tick(self) -> None:
        """Does what is due; a leader that lost its majority while it was paused resigns."""
        self.replica.tick(self._now_ms())
        self._carry_out()

    async def resign_for_good(self) -> None:
        """The node stops: if it leads, the other voters are told, so that they need not notice.
        Those that do not answer soon are left alone.
        """
        self.replica.resign(self._now_ms(), for_good=True)
        self._carry_out()
        try:
            async with asyncio.timeout(FAREWELL_WAIT_S):
                while isinstance(role := self.replica.state.role, Resigned) and (
                    role.remind_ms.keys() - self._down
                ):
                    await self._step.wait()
        except TimeoutError:
            logger.info("quorum resigned=true not every voter has answered")

    # Effects

    def _carry_out(self) -> None:
        """A failure ends the node. Until then nothing leaves any more: the replica takes for done
        what is not on disk. Whoever comes here next is told the same, and may end the node first.
        """
        if self._failure is not None:
            raise self._failure
        try:
            while effects := self.replica.take_effects():
                for at, effect in enumerate(effects):
                    if not (isinstance(effect, Persist) and _is_superseded(effects, at)):
                        self._carry_out_one(effect)
                self._log.voters = self.replica.voters
                self._listener.settled()
        except BaseException as failure:
            self._failure = failure
            raise
        self._sooner.set()
        step, self._step = self._step, asyncio.Event()
        step.set()

    def _carry_out_one(self, effect: Effect) -> None:
        log = self._log
        match effect:
            case Send():
                if self._tasks is None:
                    self._unsent.append(effect)
                else:
                    self._tasks.start(self._ask(effect))
            case AnswerFetch():
                self._answer(effect.token, self._with_records(effect))
            case Answer():
                self._answer(effect.token, effect.reply)
            case AnswerSnapshot():
                self._answer(effect.token, self._snapshot_part(effect))
            case Sync():
                self._sync_wanted.set()
            case AppendFetched():
                records = effect.reply.records
                assert isinstance(records, bytes | bytearray | memoryview)
                log.append_fetched(list(whole_batches(memoryview(records))))
            case Committed():
                self._listener.committed(effect.offset)
            case Became():
                self._listener.became(effect)
            case Persist():
                log.persist(effect.state)
            case Truncate():
                log.truncate(effect.offset)
            case AppendLeaderChange():
                log.append_leader_change(
                    effect.epoch, effect.granting, effect.voters, named=effect.named
                )
            case AppendVoters():
                logger.info("quorum epoch=%d voters=%s", effect.epoch, effect.voters)
                log.append_voters(effect.voters, upgrades=effect.upgrades)
                self._listener.voters_appended()
            case StoreSnapshotPart():
                assert isinstance(effect.data, bytes | bytearray | memoryview)
                log.store_snapshot_part(effect.snapshot, position=effect.position, data=effect.data)
            case InstallSnapshot():
                log.install_snapshot(effect.snapshot)
                self._listener.installed(effect.snapshot)
            case _:
                assert_never(effect)

    def _answer(self, token: object, reply: Reply) -> None:
        assert isinstance(token, asyncio.Future)
        if not token.done():
            token.set_result(reply)

    def _with_records(self, effect: AnswerFetch) -> FetchReply:
        reply = effect.reply
        if effect.from_offset < self._log.end_offset:
            reply.records = self._log.read(effect.from_offset, bytes_max=METADATA_FETCH_BYTES_MAX)
        else:
            reply.records = b""
        return reply

    def _snapshot_part(self, effect: AnswerSnapshot) -> FetchSnapshotReply:
        request = effect.request
        reply = FetchSnapshotReply(
            epoch=effect.epoch, leader_id=effect.leader_id, snapshot=request.snapshot, data=b""
        )
        size = self._log.snapshot_size(request.snapshot)
        if size is None:
            reply.error = Refused.SNAPSHOT_NOT_FOUND
        elif request.position >= size:
            reply.error = Refused.POSITION_OUT_OF_RANGE
        else:
            data = self._log.read_snapshot(
                request.snapshot, position=request.position, bytes_max=METADATA_FETCH_BYTES_MAX
            )
            reply.size, reply.position, reply.length = size, request.position, len(data)
            reply.data = data
        return reply

    # Requests of our own

    async def _ask(self, send: Send) -> None:
        assert self._peers is not None, "a sole voter asks nobody"
        try:
            reply = await self._peers.ask(send.to, send.request)
        except Unanswered as error:
            logger.debug("quorum request to=%d failed=%s", send.to, error)
            self.replica.failed(send.to, send.number, self._now_ms())
            if error.is_down:
                self._down.add(send.to)
                self.replica.leader_refused(send.to, self._now_ms())
        else:
            self._down.discard(send.to)
            self._refuse_twin(reply)
            if isinstance(reply, FetchSnapshotReply) and self._is_damaged(send.number, reply):
                reply.error = Refused.SNAPSHOT_NOT_FOUND  # ask again which one there is
            self.replica.receive_reply(send.to, send.number, reply, self._now_ms())
        self._carry_out()

    def _is_damaged(self, number: int, reply: FetchSnapshotReply) -> bool:
        """Whether the last part of a snapshot does not make it whole: looked at before the replica
        takes it for its log. A late reply is not looked at: another snapshot may be under way.
        """
        if reply.error is not None or not self.replica.awaits(number, reply):
            return False
        if reply.position + reply.length < reply.size:
            return False
        data = reply.data
        assert isinstance(data, bytes | bytearray | memoryview)
        if not self._log.completes_snapshot(reply.snapshot, position=reply.position, data=data):
            return True
        reply.voters = self._log.received_voters
        return False

    def _refuse_twin(self, reply: Reply) -> None:
        """NodeTwice when others say that this voter leads, in an epoch that it has never known: its
        own epochs are on its disk before it stands.
        """
        own = self._member.key
        if reply.leader_id != own.node_id or reply.epoch <= self.replica.epoch:
            return
        if self.voters.includes(own):
            raise NodeTwice(
                f"node {own.node_id} leads the quorum in epoch {reply.epoch}, and this directory"
                f" knows epoch {self.replica.epoch}: another process runs with this node.id, or"
                " the directory is an older copy of it"
            )

    def _note_fetch(self, replica: ReplicaKey, connection: Hashable) -> None:
        if not self.voters.includes(replica):
            return
        other = self._voter_connections.fetched(replica.node_id, connection)
        if other is not None:
            logger.warning(
                "quorum voter=%d processes=2 addresses=%s,%s fetch as the same voter: stop one of"
                " them; its directory may be a copy of the other's, and counts twice",
                replica.node_id, other, connection,
            )  # fmt: skip

    def _note_stranger(self, request: Request) -> None:
        if self._peers is not None and self._tasks is not None:
            self._tasks.start(self._peers.refused_stranger(request))

    # Time and disk

    async def _keep_time(self) -> None:
        while True:
            self._sooner.clear()
            due_ms = self.replica.next_deadline_ms()
            wait_ms = None if due_ms is None else max(0, due_ms - self._now_ms())
            try:
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                    await self._sooner.wait()
            except TimeoutError:
                self.replica.tick(self._now_ms())
                self._carry_out()

    async def _keep_syncing(self) -> None:
        """One sync for everything that gathered meanwhile."""
        while True:
            await self._sync_wanted.wait()
            self._sync_wanted.clear()
            self.replica.begin_sync()
            await self._world.disk.sync(self._log.unsynced())
            self._synced()

    def _synced(self) -> None:
        self.replica.synced(self._now_ms())
        self._log.synced(self.replica.synced_offset)
        self._carry_out()

    def _now_ms(self) -> int:
        return self._world.clock.monotonic_ms()


def _is_superseded(effects: Sequence[Effect], at: int) -> bool:
    """Whether hard state is written again before anything depends on it."""
    for effect in effects[at + 1 :]:
        if isinstance(effect, Persist):
            return True
        if not isinstance(effect, Became):
            return False
    return False
