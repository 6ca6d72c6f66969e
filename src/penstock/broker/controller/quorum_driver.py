"""Drives this node's replica of the metadata log: files, connections and time for `raft.Replica`.

Effects are carried out in their order and at once, so that what a message promises is on disk
before it leaves. Only the log's sync runs beside (`_keep_syncing`), since it takes long and happens
often; the replica counts a record when it is told that it is durable.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

from penstock.broker.controller.links import Lane, Links, NodeDown
from penstock.client.network.errors import ClientError
from penstock.model.identity import NodeId
from penstock.model.limit import METADATA_FETCH_BYTES_MAX
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.raft.effects import (
    Answer,
    AnswerFetch,
    AnswerSnapshot,
    AppendFetched,
    AppendLeaderChange,
    Became,
    Committed,
    Effect,
    HardState,
    InstallSnapshot,
    Persist,
    Send,
    StoreSnapshotPart,
    Sync,
    Truncate,
)
from penstock.raft.log_ends import LogEnds
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
from penstock.wire.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from penstock.wire.messages.end_quorum_epoch import EndQuorumEpochResponse
from penstock.wire.messages.endpoints import NamedEndpoint
from penstock.wire.messages.fetch import FetchResponse
from penstock.wire.messages.fetch_snapshot import FetchSnapshotResponse
from penstock.wire.messages.vote import VoteResponse
from penstock.world.ports import Buffer, File, World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)


class QuorumLog(Protocol):
    """The metadata log on disk, its snapshots, and `quorum-state`."""

    def ends(self) -> LogEnds:
        """Where the log starts and ends, with its epochs, as a start finds it."""

    def hard_state(self) -> HardState: ...

    def persist(self, state: HardState) -> None:
        """Durable when it returns."""

    def append_leader_change(self, epoch: LeaderEpoch, granting: tuple[NodeId, ...]) -> None: ...

    def append_fetched(self, records: Buffer) -> None:
        """Batches of the leader, which begin at the log's end."""

    def truncate(self, offset: Offset) -> None: ...

    def read(self, from_offset: Offset, *, bytes_max: int) -> bytes:
        """Whole batches from an offset on: at least one, if there is any."""

    def unsynced(self) -> list[File]: ...

    def synced(self, end_offset: Offset) -> None: ...

    @property
    def start_offset(self) -> Offset: ...

    @property
    def end_offset(self) -> Offset: ...

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        """In bytes; None when there is no such snapshot."""

    def read_snapshot(self, snapshot: SnapshotId, *, position: int, bytes_max: int) -> bytes: ...

    def store_snapshot_part(self, snapshot: SnapshotId, *, position: int, data: Buffer) -> None: ...

    def install_snapshot(self, snapshot: SnapshotId) -> None:
        """The parts are whole: they take the place of the log, durably."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumMember:
    """Who this replica is, and whom it belongs to."""

    key: ReplicaKey
    cluster_id: str
    voters: VoterSet
    endpoints: tuple[NamedEndpoint, ...]  # where its controller listener is
    times: Times
    request_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Who is told what becomes of the quorum. Both are called in the middle of a step: they must
    not call the driver.
    """

    became: Callable[[Became], None]
    committed: Callable[[Offset], None]


class QuorumDriver:
    """Keep `run` running; `receive` answers requests of other replicas."""

    def __init__(
        self, *, member: QuorumMember, log: QuorumLog, world: World, listener: Listener
    ) -> None:
        self._member = member
        self._log = log
        self._world = world
        self._listener = listener
        self._links: Links | None = None
        self._tasks: TaskGroup | None = None
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

    async def run(self, links: Links, tasks: TaskGroup) -> None:
        """Until cancelled. A failed write or sync ends it, and with it the node."""
        self._links, self._tasks = links, tasks
        async with TaskGroup() as own:
            own.start(self._keep_syncing())
            self.replica.start(self._now_ms())
            self._carry_out()
            own.start(self._keep_time())

    async def receive(self, request: Request) -> Reply:
        """The answer to a request of another replica; a fetch may wait for records."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.replica.receive(request, answer, self._now_ms())
        self._carry_out()
        return await answer

    def appended(self) -> None:
        """The leader's own records were appended to the log."""
        self.replica.appended(self._log.end_offset)
        self._carry_out()

    def resign(self, *, for_good: bool) -> None:
        self.replica.resign(self._now_ms(), for_good=for_good)
        self._carry_out()

    # Effects

    def _carry_out(self) -> None:
        while effects := self.replica.take_effects():
            for effect in effects:
                self._carry_out_one(effect)
        self._sooner.set()

    def _carry_out_one(self, effect: Effect) -> None:
        log = self._log
        match effect:
            case Send():
                self._start(self._ask(effect))
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
                log.append_fetched(records)
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

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None, "`run` comes first"
        self._tasks.start(coroutine)

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
            self.replica.synced(self._now_ms())
            self._log.synced(self.replica.synced_offset)
            self._carry_out()

    def _now_ms(self) -> int:
        return self._world.clock.monotonic_ms()
