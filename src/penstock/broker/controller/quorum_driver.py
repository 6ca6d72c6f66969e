"""Drives this node's replica of the metadata log: files, connections and time for `raft.Replica`.

Effects are carried out in their order and at once, so that what a message promises is on disk
before it leaves. Only the log's sync runs beside (`_keep_syncing`), since it takes long and happens
often; the replica counts a record when it is told that it is durable.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from penstock.broker.controller.links import Lane, Links, NodeDown
from penstock.broker.controller.metadata_journal import MetadataJournal
from penstock.client.network.errors import ClientError
from penstock.model.identity import NodeId
from penstock.model.limit import METADATA_FETCH_BYTES_MAX
from penstock.model.offset import Offset, SnapshotId
from penstock.raft.description import QuorumDescription, describe_quorum
from penstock.raft.effects import (
    Answer,
    AnswerFetch,
    AnswerSnapshot,
    AppendFetched,
    AppendLeaderChange,
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
    EndEpochRequest,
    FetchReply,
    FetchRequest,
    FetchSnapshotReply,
    FetchSnapshotRequest,
    Refused,
    Reply,
    Request,
    VoteRequest,
)
from penstock.raft.replica import Replica
from penstock.raft.times import Times
from penstock.raft.voters import ReplicaKey, VoterSet
from penstock.raft.wire_form import begin_epoch, end_epoch, fetch, fetch_snapshot, vote
from penstock.raft.wire_form.envelope import UnusableReply
from penstock.records.batch import BatchView, whole_batches
from penstock.wire.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from penstock.wire.messages.end_quorum_epoch import EndQuorumEpochResponse
from penstock.wire.messages.endpoints import NamedEndpoint
from penstock.wire.messages.fetch import FetchResponse
from penstock.wire.messages.fetch_snapshot import FetchSnapshotResponse
from penstock.wire.messages.vote import VoteResponse
from penstock.world.ports import Buffer, World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumMember:
    """Who this replica is, and whom it belongs to."""

    key: ReplicaKey
    cluster_id: str
    voters: VoterSet
    endpoints: tuple[NamedEndpoint, ...]  # where its controller listener is
    times: Times
    request_timeout_ms: int


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
        self._links: Links | None = None
        self._tasks: TaskGroup | None = None
        self._unsent: list[Send] = []  # until `run` has connections
        self._sooner = asyncio.Event()
        self._sync_wanted = asyncio.Event()
        self.replica = Replica(
            key=member.key,
            voters=member.voters,
            times=member.times,
            draw=world.entropy.random_below,
            hard=log.hard_state(),
            log=log.ends(),
        )

    def start(self) -> None:
        """Before `run`. A voter that is a majority alone leads, with all it has committed, when
        this returns.
        """
        self.replica.start(self._now_ms())
        self._carry_out()
        if self._member.voters.majority == 1:
            while self._sync_wanted.is_set():
                self._sync_wanted.clear()
                self.replica.begin_sync()
                self._log.sync()
                self._synced()

    async def run(self, links: Links | None) -> None:
        """Until cancelled. A failed write or sync ends it, and with it the node. A sole voter needs
        no links.
        """
        async with TaskGroup() as tasks:
            self._links, self._tasks = links, tasks
            for send in self._unsent:
                tasks.start(self._ask(send))
            self._unsent.clear()
            tasks.start(self._keep_syncing())
            tasks.start(self._keep_time())

    def receive(self, request: Request) -> "asyncio.Future[Reply]":
        """The answer to a request of another replica; a fetch may wait for records."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.replica.receive(request, answer, self._now_ms())
        self._carry_out()
        return answer

    def describe(self) -> QuorumDescription | None:
        """How far each replica has come; None where this one does not lead."""
        return describe_quorum(self.replica.state, self._now_ms())

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

    def resign(self, *, for_good: bool) -> None:
        self.replica.resign(self._now_ms(), for_good=for_good)
        self._carry_out()

    # Effects

    def _carry_out(self) -> None:
        while effects := self.replica.take_effects():
            for at, effect in enumerate(effects):
                if not (isinstance(effect, Persist) and _is_superseded(effects, at)):
                    self._carry_out_one(effect)
            self._listener.settled()
        self._sooner.set()

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
                log.append_fetched(_batches(records))
            case Committed():
                self._listener.committed(effect.offset)
            case Became():
                self._listener.became(effect)
            case Persist():
                log.persist(effect.state)
            case Truncate():
                log.truncate(effect.offset)
            case AppendLeaderChange():
                log.append_leader_change(effect.epoch, effect.granting)
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
        try:
            reply = await self._reply_to(send)
        except (ClientError, UnusableReply) as error:
            logger.debug("quorum request to=%d failed=%s", send.to, error)
            self.replica.failed(send.to, send.number, self._now_ms())
            if isinstance(error, NodeDown):
                self.replica.leader_refused(send.to, self._now_ms())
        else:
            self.replica.receive_reply(send.to, send.number, reply, self._now_ms())
        self._carry_out()

    async def _reply_to(self, send: Send) -> Reply:
        links, member = self._links, self._member
        assert links is not None, "`run` comes first"
        request, to, cluster_id = send.request, send.to, member.cluster_id
        elections, metadata = Lane.ELECTIONS, Lane.METADATA
        timeout_ms = member.request_timeout_ms
        match request:
            case FetchRequest():
                fetched = await links.ask(
                    to,
                    fetch.request_to_wire(
                        request, cluster_id=cluster_id, bytes_max=METADATA_FETCH_BYTES_MAX
                    ),
                    FetchResponse,
                    lane=metadata,
                    timeout_ms=timeout_ms + request.wait_ms_max,
                )
                return self._checked(request, fetch.reply_from_wire(fetched))
            case VoteRequest():
                voted = await links.ask(
                    to,
                    vote.request_to_wire(request, cluster_id=cluster_id),
                    VoteResponse,
                    lane=elections,
                    timeout_ms=timeout_ms,
                )
                return vote.reply_from_wire(voted)
            case BeginEpochRequest():
                begun = await links.ask(
                    to,
                    begin_epoch.request_to_wire(
                        request, cluster_id=cluster_id, endpoints=member.endpoints
                    ),
                    BeginQuorumEpochResponse,
                    lane=elections,
                    timeout_ms=timeout_ms,
                )
                return begin_epoch.reply_from_wire(begun)
            case EndEpochRequest():
                ended = await links.ask(
                    to,
                    end_epoch.request_to_wire(
                        request, cluster_id=cluster_id, endpoints=member.endpoints
                    ),
                    EndQuorumEpochResponse,
                    lane=elections,
                    timeout_ms=timeout_ms,
                )
                return end_epoch.reply_from_wire(ended)
            case FetchSnapshotRequest():
                part = await links.ask(
                    to,
                    fetch_snapshot.request_to_wire(
                        request, cluster_id=cluster_id, bytes_max=METADATA_FETCH_BYTES_MAX
                    ),
                    FetchSnapshotResponse,
                    lane=metadata,
                    timeout_ms=timeout_ms,
                )
                return fetch_snapshot.reply_from_wire(part)
            case _:
                assert_never(request)

    def _checked(self, request: FetchRequest, reply: FetchReply) -> FetchReply:
        """Records begin where they were asked for, or are not taken."""
        if reply.runs:
            assert isinstance(reply.records, bytes | bytearray | memoryview)
            base_offset = int.from_bytes(memoryview(reply.records)[:8])
            if base_offset != request.log_end.offset:
                raise UnusableReply(
                    f"asked for records from {request.log_end.offset}, got {base_offset}"
                )
        return reply

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


def _batches(records: Buffer) -> list[BatchView]:
    """In memory of their own: the connection's buffer is used again. A last one that is cut off is
    fetched again.
    """
    return list(whole_batches(memoryview(bytes(records))))


def _is_superseded(effects: Sequence[Effect], at: int) -> bool:
    """Whether hard state is written again before anything depends on it."""
    for effect in effects[at + 1 :]:
        if isinstance(effect, Persist):
            return True
        if not isinstance(effect, Became):
            return False
    return False
