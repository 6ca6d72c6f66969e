"""Fetches from one node, for all replicas here that follow a leader there.

One connection, one session, one request after the other: the position that a fetch names is the
follower's ack, so what a reply brought is appended before the next request leaves. Records go from
the receive buffer into the log: the reply's views hold until the next one is received.

    follow, leave     the metadata says which replicas follow this node
    resume            a log has been synced, and its position can be named again (fsync acks)
    run               connects and fetches until cancelled

Trouble with one partition does not concern the others: it is left out of the session until its
back-off is over, its log is synced, or its leader changes. What is new while a fetch waits at the
leader is sent at once, as a second request that ends this wait; only then are there two.

    back_offs         partitions whose last fetch failed
    held_back         partitions out of sync that the throttle does not let go on
    truncations       logs that are being cut as the leader has them, in many steps
    out_of_range      offsets that the leader does not have
    leader_contact    whether the node replies, and when to connect again

Start reading at `ReplicaFetcher.run`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from penstock.broker.partitions.partitions import Partitions
from penstock.broker.replication.back_offs import BackOffs
from penstock.broker.replication.held_back import HeldBack
from penstock.broker.replication.leader_contact import LeaderContact
from penstock.broker.replication.out_of_range import (
    LeaderOffsets,
    Restart,
    leader_offsets,
    restart,
)
from penstock.broker.replication.truncations import Truncations, log_truncated
from penstock.client.network.errors import ClientError, TimedOut
from penstock.log.errors import CorruptData, CorruptRun
from penstock.model.identity import NodeId, TopicId
from penstock.model.limit import TURN_MS_MAX
from penstock.model.offset import LeaderEpoch
from penstock.model.settings.replication import ReplicationSettings
from penstock.replication.follower import Follower, Position, Taken
from penstock.replication.replica_session import PartitionId, ReplicaSession
from penstock.replication.throttle import ReplicationThrottle
from penstock.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from penstock.wire.replica_fetch import (
    VERSION_MIN,
    FetchedPartition,
    ReplicaReply,
    encode_replica_fetch,
    read_replica_reply,
)
from penstock.world.errors import DiskError
from penstock.world.ports import Clock
from penstock.world.tasks import TaskGroup

if TYPE_CHECKING:
    # Not loaded by a node that exports no traces.
    from penstock.broker.replication.replica_tracing import ReplicaTracing
    from penstock.client.network.view_channel import ViewChannel

STARTS_PER_TURN = 100
WATCHES_PER_TIMEOUT = 4  # for replies that are late

Connect = Callable[[NodeId], Awaitable["ViewChannel"]]


class Replaced(ClientError):
    """The connection was closed here: the node has another process, or another address."""


class ReplicaFetcher:
    """See the module. `connect` raises ClientError; `broker_epoch` is this broker's own."""

    def __init__(
        self,
        leader: NodeId,
        *,
        node_id: NodeId,
        broker_epoch: Callable[[], int],
        partitions: Partitions,
        settings: ReplicationSettings,
        throttle: ReplicationThrottle,
        connect: Connect,
        clock: Clock,
        tasks: TaskGroup,
        tracing: "ReplicaTracing | None" = None,
    ) -> None:
        self.leader = leader
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._partitions = partitions
        self._settings = settings
        self._connect = connect
        self._clock = clock
        self._tasks = tasks
        self._tracing = tracing
        self._received_us = 0  # the reply at hand; kept where batches are traced
        self._followers: dict[PartitionId, Follower] = {}
        self._session = ReplicaSession()
        self._out_of_range: dict[PartitionId, Follower] = {}
        self._truncations = Truncations(leader, tasks=tasks, ended=self._cut_ended)
        self._starts_behind: dict[PartitionId, Follower] = {}
        self._starts_move_from_ms = 0  # not before: a disk was full
        self._back_offs = BackOffs(
            leader,
            self._session,
            wait_ms_max=settings.replica_fetch_backoff_ms,
            clock=clock,
            over=self._fetch_again,
            look=self._look,
        )
        self._held_back = HeldBack(
            throttle,
            self._session,
            node_id=node_id,
            is_in_sync=partitions.is_in_sync,
            partition_bytes_max=settings.replica_fetch_max_bytes,
            clock=clock,
            release=self._fetch_again,
            look=self._look,
        )
        self._contact = LeaderContact(leader, clock)
        self._channel: ViewChannel | None = None
        self._version = FetchRequest.VERSIONS.max
        self._is_waiting = False  # for the reply to a request
        self._waiting_since_ms = 0
        self._news = asyncio.Event()  # there may be something to fetch

    def __len__(self) -> int:
        return len(self._followers)

    def check(self) -> None:
        self._session.check()
        for partition, follower in self._followers.items():
            assert partition == (follower.topic_id, follower.name.partition)

    @property
    def is_lost(self) -> bool:
        """Whether the process of the node has probably just ended: see `LeaderContact.is_lost`."""
        return self._contact.is_lost

    # Told by the metadata, and by syncs

    def follow(self, follower: Follower) -> None:
        """From now on, or in another leader epoch. `hurry` comes after some of these."""
        partition = id_of(follower)
        self._followers[partition] = follower
        self._out_of_range.pop(partition, None)
        self._truncations.forget(partition)
        self._back_offs.forget(partition)
        self._held_back.forget(partition)
        self._want(partition, follower)

    def leave(self, follower: Follower) -> None:
        """It does not follow this node any more."""
        partition = id_of(follower)
        if self._followers.get(partition) is follower:
            self._forget(partition)

    def resume(self, follower: Follower) -> None:
        """Its log has been synced."""
        partition = id_of(follower)
        if self._followers.get(partition) is not follower or partition in self._out_of_range:
            return
        if not self._back_offs.is_waiting(partition) and partition not in self._held_back:
            self._want(partition, follower)
            self._look()

    def reconnect(self) -> None:
        """The node has another process, or another address: no reply comes from the old one."""
        if self._channel is not None:
            self._channel.close(Replaced(f"node {self.leader} has another process or address"))
        self._contact.replaced()
        self.hurry()

    def hurry(self) -> None:
        """The metadata has changed: there may be something to fetch, or the node is back."""
        self._contact.hurry()
        self._look()

    def _look(self) -> None:
        self._news.set()
        if self._is_waiting and self._session.has_news and self._session.may_interrupt:
            self._tasks.start(self._interrupt(), name=f"fetch from {self.leader} again")

    # Connecting and fetching

    async def run(self) -> None:
        """Fetches until cancelled."""
        try:
            while True:
                if self._followers:
                    await self._connect_and_fetch()
                else:
                    self._news.clear()
                    await self._news.wait()
        finally:
            self._back_offs.stop()
            self._held_back.stop()

    async def _connect_and_fetch(self) -> None:
        self._contact.connecting()
        channel: ViewChannel | None = None
        failure: ClientError | None = None
        try:
            channel = await self._connect(self.leader)
        except ClientError as error:
            failure = error
        if channel is not None:
            failure = await self._fetch_until_lost(channel)
        if failure is not None:
            await self._contact.connection_failed(failure)

    async def _fetch_until_lost(self, channel: "ViewChannel") -> ClientError | None:
        """Why the connection was lost; None when there is nobody to fetch for any more."""
        self._channel = channel
        watching = self._tasks.start(self._watch(channel))
        failure: ClientError | None = None
        try:
            await self._fetch(channel)
        except ClientError as error:
            failure = error
        finally:
            self._channel = None
            watching.cancel()
            self._is_waiting = False
            channel.close()
            self._session.reconnected()
        return failure

    async def _fetch(self, channel: "ViewChannel") -> None:
        """Until there is nobody to fetch for. ClientError when the connection is lost."""
        self._version = channel.version_for(FetchRequest)
        session = self._session
        while self._followers:
            if session.outstanding == 0:
                if self._out_of_range:
                    await self._restart_out_of_range(channel)
                if session.is_empty:
                    self._news.clear()
                    await self._news.wait()
                    continue
                await self._send_next(channel)
            self._waiting_since_ms = self._clock.monotonic_ms()
            self._is_waiting = True
            try:
                frame = await channel.receive_frame()
            finally:
                self._is_waiting = False
            if self._tracing is not None:
                self._received_us = self._clock.monotonic_us()
            reply = read_replica_reply(frame) if self._version >= VERSION_MIN else None
            await self._take(reply or channel.decoded(frame, FetchResponse, version=self._version))

    async def _watch(self, channel: "ViewChannel") -> None:
        """Closes the connection when a reply is late. A timer for each request would cost more
        than all else that one for a few records does here.
        """
        timeout_ms = self._settings.replica_socket_timeout_ms
        while True:
            await asyncio.sleep(timeout_ms / WATCHES_PER_TIMEOUT / 1000)
            if (
                self._is_waiting
                and self._clock.monotonic_ms() - self._waiting_since_ms > timeout_ms
            ):
                channel.close(TimedOut(f"{channel.address}: no answer within {timeout_ms} ms"))

    async def _interrupt(self) -> None:
        """A second request, which ends the wait of the first one at the leader."""
        channel, session = self._channel, self._session
        if channel is None or not self._is_waiting:
            return
        if not session.has_news or not session.may_interrupt or session.outstanding == 0:
            return
        try:
            await self._send_next(channel)
        except ClientError:
            channel.close()  # whoever waits for the reply is told

    async def _send_next(self, channel: "ViewChannel") -> None:
        """The commonest form of a request without building it: see `wire/replica_fetch`."""
        settings, session, version = self._settings, self._session, self._version
        positions = (
            session.next_positions(partition_bytes_max=settings.replica_fetch_max_bytes)
            if version >= VERSION_MIN
            else None
        )
        if positions is None:
            await channel.send(self._next_request(), FetchResponse, version=version)
            return
        frame = encode_replica_fetch(
            version=version,
            correlation_id=channel.begin(FetchResponse, version=version),
            client_id=channel.client_id,
            wait_ms_max=settings.replica_fetch_wait_max_ms,
            bytes_min=settings.replica_fetch_min_bytes,
            bytes_max=settings.replica_fetch_response_max_bytes,
            session_id=positions.session_id,
            session_epoch=positions.session_epoch,
            node=self._node_id,
            broker_epoch=self._broker_epoch(),
            topics=positions.topics,
        )
        await channel.send_frame([frame])

    def _next_request(self) -> FetchRequest:
        settings = self._settings
        may_wait = self._session.may_wait
        request = self._session.next_request(partition_bytes_max=settings.replica_fetch_max_bytes)
        request.replica_id = self._node_id
        request.replica_state = ReplicaState(
            replica_id=self._node_id, replica_epoch=self._broker_epoch()
        )
        request.max_wait_ms = settings.replica_fetch_wait_max_ms if may_wait else 0
        request.min_bytes = settings.replica_fetch_min_bytes
        request.max_bytes = settings.replica_fetch_response_max_bytes
        return request

    # Replies

    async def _take(self, response: FetchResponse | ReplicaReply) -> None:
        """Appends what came, by turns. Nothing is received meanwhile: records are views."""
        session = self._session
        if not session.replied(response):
            assert isinstance(response, FetchResponse), "the other kind has no error"
            if session.outstanding == 0:
                await self._contact.session_refused(response.error_code)
            return
        self._contact.replied()
        with_records: list[PartitionId] = []
        turn_ends_ms = self._clock.monotonic_ms() + TURN_MS_MAX
        for partition, data in answers_of(response):
            asked = session.asked(partition)
            follower = self._followers.get(partition)
            if asked is None or follower is None:
                continue
            if data.records:
                with_records.append(partition)
            self._take_partition(partition, follower, asked, data)
            if self._clock.monotonic_ms() >= turn_ends_ms:
                await asyncio.sleep(0)
                turn_ends_ms = self._clock.monotonic_ms() + TURN_MS_MAX
        session.taken(with_records)
        if with_records and self._held_back.has_rate:
            self._held_back.hold(self._followers, self._may_be_held)
        if self._starts_behind and self._clock.monotonic_ms() >= self._starts_move_from_ms:
            await self._move_starts()

    def _take_partition(
        self,
        partition: PartitionId,
        follower: Follower,
        asked: Position,
        data: PartitionData | FetchedPartition,
    ) -> None:
        if follower.has_ended:
            self._forget(partition)
            return
        try:
            taken = follower.take(
                asked, data, now_ms=self._clock.now_ms(), moves_start=False, in_steps=True
            )
        except CorruptRun as damage:
            self._back_offs.failed(partition, follower, f"corrupt batch from leader: {damage}")
        except (CorruptData, DiskError) as error:
            self._failed(partition, follower, error)
        else:
            if self._tracing is not None and taken is Taken.APPENDED:
                self._trace(self._tracing, follower, asked, data)
            self._taken(partition, follower, taken)
            if data.records and self._held_back.has_rate:
                self._held_back.taken(partition, follower, data)

    def _trace(
        self,
        tracing: "ReplicaTracing",
        follower: Follower,
        asked: Position,
        data: PartitionData | FetchedPartition,
    ) -> None:
        records = data.records
        assert isinstance(records, bytes | bytearray | memoryview), "as it was received"
        tracing.appended(
            follower,
            memoryview(records),
            from_offset=asked.fetch_offset,
            high_watermark=data.high_watermark,
            received_us=self._received_us,
            appended_us=self._clock.monotonic_us(),
        )

    def _taken(self, partition: PartitionId, follower: Follower, taken: Taken) -> None:
        if taken is Taken.REFUSED:
            self._back_offs.refused(partition, follower)
        elif taken is Taken.OUT_OF_RANGE:
            self._session.leave_out(partition)
            self._out_of_range[partition] = follower
        elif taken is Taken.CUTTING:
            self._cut_in_steps(partition, follower)
        else:
            if taken is Taken.TRUNCATED:
                log_truncated(follower, self.leader)
            if self._back_offs.wait_ms:
                self._back_offs.end(partition)
            self._want(partition, follower)
            if follower.start_behind is not None:
                self._starts_behind[partition] = follower

    def _cut_in_steps(self, partition: PartitionId, follower: Follower) -> None:
        """Left out until its log is truncated, which may take seconds; the others go on."""
        self._session.leave_out(partition)
        self._truncations.begin(partition, follower)

    def _cut_ended(
        self,
        partition: PartitionId,
        follower: Follower,
        outcome: Taken | CorruptData | DiskError,
    ) -> None:
        if isinstance(outcome, Taken):
            self._taken(partition, follower, outcome)
        else:
            self._failed(partition, follower, outcome)
        self._look()

    async def _move_starts(self) -> None:
        """The leader has removed records: so do the followers, many with one write. Where the disk
        is full that is tried again with a later reply: the leader does not repeat it.
        """
        behind, self._starts_behind = self._starts_behind, {}
        followers = list(behind.values())
        for first in range(0, len(followers), STARTS_PER_TURN):
            starts = {
                follower.name: start_offset
                for follower in followers[first : first + STARTS_PER_TURN]
                if not follower.has_ended and (start_offset := follower.start_behind) is not None
            }
            failed = self._partitions.directories.advance_starts(starts)
            for follower in followers[first : first + STARTS_PER_TURN]:
                partition = id_of(follower)
                error = failed.get(follower.name)
                if error is not None and not follower.has_ended:
                    self._partitions.append_failed(follower, error)
                    self._move_start_later(partition, follower)
                if (
                    self._followers.get(partition) is follower
                    and partition in self._session.known
                    and partition not in self._held_back
                    and self._may_be_held(partition)
                ):
                    self._want(partition, follower)
            await asyncio.sleep(0)

    def _move_start_later(self, partition: PartitionId, follower: Follower) -> None:
        """If the replica is still there. Its records are fetched meanwhile: they may find room."""
        if not follower.has_ended and self._followers.get(partition) is follower:
            self._starts_behind[partition] = follower
            wait_ms = self._settings.replica_fetch_backoff_ms
            self._starts_move_from_ms = self._clock.monotonic_ms() + wait_ms

    def _want(self, partition: PartitionId, follower: Follower) -> None:
        position = follower.position()
        if position is not None:
            self._session.want(partition, position)
            return
        self._session.leave_out(partition)
        if follower.wants_sync:
            self._partitions.want_sync(follower)

    def _failed(
        self, partition: PartitionId, follower: Follower, error: CorruptData | DiskError
    ) -> None:
        """A disk that is full takes records again once there is room; any other error of the disk
        was the end of the replica.
        """
        if isinstance(error, CorruptData):
            self._back_offs.failed(partition, follower, f"own log is corrupt: {error}")
            return
        self._partitions.append_failed(follower, error)
        if follower.has_ended:
            self._forget(partition)
        else:
            self._back_offs.begin_longest(partition)

    def _may_be_held(self, partition: PartitionId) -> bool:
        """Whether it is left out for no other reason, the sync of its log aside."""
        return not (
            self._back_offs.is_waiting(partition)
            or partition in self._out_of_range
            or self._followers[partition].is_cutting
        )

    def _fetch_again(self, partition: PartitionId) -> None:
        """Its back-off is over, or the throttle lets it go on."""
        self._want(partition, self._followers[partition])

    def _forget(self, partition: PartitionId) -> None:
        self._followers.pop(partition, None)
        self._out_of_range.pop(partition, None)
        self._starts_behind.pop(partition, None)
        self._truncations.forget(partition)
        self._back_offs.forget(partition)
        self._held_back.forget(partition)
        self._session.leave_out(partition)

    # Offsets that the leader does not have

    async def _restart_out_of_range(self, channel: "ViewChannel") -> None:
        """Asks the leader what it has, and restarts there; on the next connection, if this one is
        lost. Nothing is outstanding meanwhile.
        """
        asked = dict(self._out_of_range)
        epochs = {partition: follower.leader_epoch for partition, follower in asked.items()}
        found = await leader_offsets(
            channel,
            asked,
            node_id=self._node_id,
            timeout_ms=self._settings.replica_socket_timeout_ms,
        )
        for partition, follower in asked.items():
            if self._out_of_range.get(partition) is not follower:
                continue  # it has another leader, or another leader epoch
            del self._out_of_range[partition]
            offsets = found.get(partition)
            if offsets is None:
                self._back_offs.begin(partition)  # fetched once more, and asked again if need be
            else:
                self._restart(partition, follower, epochs[partition], offsets)

    def _restart(
        self,
        partition: PartitionId,
        follower: Follower,
        leader_epoch: LeaderEpoch,
        offsets: LeaderOffsets,
    ) -> None:
        try:
            restarted = restart(follower, self.leader, leader_epoch, offsets)
        except (CorruptData, DiskError) as error:
            self._failed(partition, follower, error)
            return
        if restarted is Restart.CUTTING:
            self._cut_in_steps(partition, follower)
        elif restarted is Restart.IN_RANGE:
            # To ask again at once would go on for ever.
            reason = (
                f"the leader, with offsets {offsets.start} to {offsets.end}, "
                f"refuses {follower.log.end_offset}"
            )
            self._back_offs.failed(partition, follower, reason)
        else:
            self._want(partition, follower)


def answers_of(
    response: FetchResponse | ReplicaReply,
) -> list[tuple[PartitionId, PartitionData | FetchedPartition]]:
    if isinstance(response, ReplicaReply):
        return [((TopicId(data.topic_id), data.index), data) for data in response.partitions]
    return [
        ((TopicId(topic.topic_id), data.partition_index), data)
        for topic in response.responses
        for data in topic.partitions
    ]


def id_of(follower: Follower) -> PartitionId:
    return follower.topic_id, follower.name.partition
