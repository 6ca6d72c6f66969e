"""Fetches from one node, for all replicas here that follow a leader there.

One connection, one session, one request after the other: the position that a fetch names is the
follower's ack, so what a reply brought is appended before the next request leaves. Records go from
the receive buffer into the log: the reply's views hold until the next one is received.

    follow, leave     the metadata says which replicas follow this node
    resume            a log has been synced, and its position can be named again (fsync acks)
    run               connects and fetches until cancelled

Trouble with one partition does not concern the others: it is left out of the session until its
back-off is over, its log is synced, or its leader changes. What is new while a fetch waits at the
leader is sent at once, as a second request that ends this wait; only then are there two. Start
reading at `ReplicaFetcher.run`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from penstock.broker.controller.links import NodeDown
from penstock.broker.partitions.partitions import Partitions
from penstock.client.network.errors import ClientError, ConnectionLost, TimedOut
from penstock.log.errors import CorruptData, CorruptRun
from penstock.machine.deadlines import Deadlines
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.model.limit import TURN_MS_MAX
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.replication import ReplicationSettings
from penstock.replication.follower import Follower, Position, Taken
from penstock.replication.replica_session import PartitionId, ReplicaSession
from penstock.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
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
    from penstock.client.network.view_channel import ViewChannel

logger = logging.getLogger(__name__)

RECONNECT_WAIT_MS_MIN = 50
RECONNECT_WAIT_MS_MAX = 1_000
# After a change of leader the follower may know of it before the leader does: asked again at once,
# it is in step. Other errors last longer, and the wait doubles up to replica.fetch.backoff.ms.
BACK_OFF_MS_MIN = 10
STARTS_PER_TURN = 100
# So soon the controller has replaced a leader whose process has ended; else the cause is another.
LOST_MS_MAX = 2_000
WATCHES_PER_TIMEOUT = 4  # for replies that are late
EARLIEST = -2
LATEST = -1

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
        connect: Connect,
        clock: Clock,
        tasks: TaskGroup,
    ) -> None:
        self.leader = leader
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._partitions = partitions
        self._settings = settings
        self._connect = connect
        self._clock = clock
        self._tasks = tasks
        self._followers: dict[PartitionId, Follower] = {}
        self._session = ReplicaSession()
        self._out_of_range: dict[PartitionId, Follower] = {}
        self._cutting: dict[PartitionId, Follower] = {}  # truncations that take many steps
        self._cutter: asyncio.Task[None] | None = None
        self._starts_behind: dict[PartitionId, Follower] = {}
        self._back_offs: Deadlines[PartitionId] = Deadlines()
        self._back_off_ms: dict[PartitionId, int] = {}  # of those whose last fetch failed
        self._reasons: dict[PartitionId, str] = {}  # told already
        self._channel: ViewChannel | None = None
        self._version = FetchRequest.VERSIONS.max
        self._is_waiting = False  # for the reply to a request
        self._waiting_since_ms = 0
        self._news = asyncio.Event()  # there may be something to fetch
        self._hurry = asyncio.Event()  # the metadata has changed: a connection may succeed now
        self._timer: asyncio.TimerHandle | None = None
        self._failures = 0  # of connections and sessions since the last reply
        self._is_told = False  # that there is no connection
        self._lost_ms: int | None = None  # since when the node has not replied, if it hung up

    def __len__(self) -> int:
        return len(self._followers)

    def check(self) -> None:
        self._session.check()
        for partition, follower in self._followers.items():
            assert partition == (follower.topic_id, follower.name.partition)

    @property
    def is_lost(self) -> bool:
        """Whether the node has just closed the connection, or refused one, and has not replied
        since: its process has probably ended, and the metadata will say who leads instead. After a
        while nothing is concluded from that any more: a living node may be cut off from this one.
        """
        lost_ms = self._lost_ms
        return lost_ms is not None and self._clock.monotonic_ms() - lost_ms < LOST_MS_MAX

    # Told by the metadata, and by syncs

    def follow(self, follower: Follower) -> None:
        """From now on, or in another leader epoch. `hurry` comes after some of these."""
        partition = id_of(follower)
        self._followers[partition] = follower
        self._out_of_range.pop(partition, None)
        self._cutting.pop(partition, None)
        self._reasons.pop(partition, None)
        self._end_back_off(partition)
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
        if self._back_offs.at(partition) is None:
            self._want(partition, follower)
            self._look()

    def reconnect(self) -> None:
        """The node has another process, or another address: no reply comes from the old one."""
        if self._channel is not None:
            self._channel.close(Replaced(f"node {self.leader} has another process or address"))
        self._lost_ms = None
        self.hurry()

    def hurry(self) -> None:
        """The metadata has changed: there may be something to fetch, or the node is back."""
        self._failures = 0
        self._hurry.set()
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
            if self._timer is not None:
                self._timer.cancel()

    async def _connect_and_fetch(self) -> None:
        self._hurry.clear()
        channel: ViewChannel | None = None
        failure: ClientError | None = None
        try:
            channel = await self._connect(self.leader)
        except ClientError as error:
            failure = error
        if channel is not None:
            failure = await self._fetch_until_lost(channel)
        if failure is not None:
            if self._lost_ms is None and isinstance(failure, ConnectionLost | NodeDown):
                self._lost_ms = self._clock.monotonic_ms()
            await self._wait_to_connect(failure)

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
            await self._session_lost(response.error_code)
            return
        self._replied()
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
        if self._starts_behind:
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
            self._failed(partition, follower, f"corrupt batch from leader: {damage}")
        except CorruptData as damage:
            self._failed(partition, follower, f"own log is corrupt: {damage}")
        except DiskError as error:
            self._disk_failed(partition, follower, error)
        else:
            self._taken(partition, follower, taken)

    def _taken(self, partition: PartitionId, follower: Follower, taken: Taken) -> None:
        if taken is Taken.REFUSED:
            self._back_off(partition)
            if self._back_off_ms[partition] == self._settings.replica_fetch_backoff_ms:
                self._tell(partition, follower, "refused", follower.error.name)
        elif taken is Taken.OUT_OF_RANGE:
            self._session.leave_out(partition)
            self._out_of_range[partition] = follower
        elif taken is Taken.CUTTING:
            self._cut_in_steps(partition, follower)
        else:
            if taken is Taken.TRUNCATED:
                self._log_truncated(follower)
            if self._back_off_ms:
                self._end_back_off(partition)
            self._want(partition, follower)
            if follower.start_behind is not None:
                self._starts_behind[partition] = follower

    def _cut_in_steps(self, partition: PartitionId, follower: Follower) -> None:
        """Left out until its log is truncated, which may take seconds; the others go on."""
        self._session.leave_out(partition)
        self._cutting[partition] = follower
        if self._cutter is None or self._cutter.done():
            self._cutter = self._tasks.start(self._cut_all(), name=f"cut as {self.leader} has it")

    async def _cut_all(self) -> None:
        while self._cutting:
            for partition, follower in tuple(self._cutting.items()):
                if self._cutting.get(partition) is follower:
                    self._cut_further(partition, follower)
                await asyncio.sleep(0)

    def _cut_further(self, partition: PartitionId, follower: Follower) -> None:
        try:
            taken = follower.cut_further()
        except CorruptData as damage:
            self._failed(partition, follower, f"own log is corrupt: {damage}")
        except DiskError as error:
            self._disk_failed(partition, follower, error)
        else:
            if taken is Taken.CUTTING:
                return
            self._taken(partition, follower, taken)
        self._cutting.pop(partition, None)
        self._look()

    async def _move_starts(self) -> None:
        """The leader has removed records: so do the followers, many with one write."""
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
                error = failed.get(follower.name)
                if error is not None and not follower.has_ended:
                    self._partitions.append_failed(follower, error)
                partition = id_of(follower)
                if self._followers.get(partition) is follower and partition in self._session.known:
                    self._want(partition, follower)
            await asyncio.sleep(0)

    def _log_truncated(self, follower: Follower) -> None:
        below = follower.cut_below_watermark
        logger.log(
            logging.INFO if below is None else logging.WARNING,
            "replica partition=%s leader=%d leader_epoch=%d truncated_to=%d%s",
            follower.name, self.leader, follower.leader_epoch, follower.log.end_offset,
            "" if below is None else f" high_watermark={below} reason=unclean election",
        )  # fmt: skip

    def _want(self, partition: PartitionId, follower: Follower) -> None:
        position = follower.position()
        if position is not None:
            self._session.want(partition, position)
            return
        self._session.leave_out(partition)
        if follower.wants_sync:
            self._partitions.want_sync(follower)

    def _failed(self, partition: PartitionId, follower: Follower, reason: str) -> None:
        """Told once for each reason; tried again after the longest back-off."""
        self._tell(partition, follower, "failed", reason)
        self._back_off(partition, wait_ms=self._settings.replica_fetch_backoff_ms)

    def _tell(self, partition: PartitionId, follower: Follower, state: str, reason: str) -> None:
        if self._reasons.get(partition) != reason:
            self._reasons[partition] = reason
            logger.error(
                "replica partition=%s leader=%d state=%s reason=%s",
                follower.name, self.leader, state, reason,
            )  # fmt: skip

    def _disk_failed(self, partition: PartitionId, follower: Follower, error: DiskError) -> None:
        """A disk that is full takes records again once there is room; else this was its end."""
        self._partitions.append_failed(follower, error)
        if follower.has_ended:
            self._forget(partition)
        else:
            self._back_off(partition, wait_ms=self._settings.replica_fetch_backoff_ms)

    def _forget(self, partition: PartitionId) -> None:
        self._followers.pop(partition, None)
        self._out_of_range.pop(partition, None)
        self._cutting.pop(partition, None)
        self._reasons.pop(partition, None)
        self._end_back_off(partition)
        self._session.leave_out(partition)

    # Back-off

    def _back_off(self, partition: PartitionId, *, wait_ms: int | None = None) -> None:
        longest_ms = self._settings.replica_fetch_backoff_ms
        if wait_ms is None:
            wait_ms = min(2 * self._back_off_ms.get(partition, BACK_OFF_MS_MIN // 2), longest_ms)
        self._back_off_ms[partition] = wait_ms
        self._session.leave_out(partition)
        self._back_offs.set(partition, self._clock.monotonic_ms() + wait_ms)
        self._set_timer()

    def _end_back_off(self, partition: PartitionId) -> None:
        self._back_offs.cancel(partition)
        self._back_off_ms.pop(partition, None)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ms = self._back_offs.next_ms()
        if next_ms is not None:
            wait_s = max(next_ms - self._clock.monotonic_ms(), 1) / 1000
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._back_offs_over)

    def _back_offs_over(self) -> None:
        """They are fetched again; what the last error was stays known until a fetch succeeds."""
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        while (partition := self._back_offs.due(now_ms)) is not None:
            self._back_offs.cancel(partition)
            self._want(partition, self._followers[partition])
        self._set_timer()
        self._look()

    # Offsets that the leader does not have

    async def _restart_out_of_range(self, channel: "ViewChannel") -> None:
        """Asks the leader what it has, and restarts there. Nothing is outstanding meanwhile."""
        asked, self._out_of_range = self._out_of_range, {}
        epochs = {partition: follower.leader_epoch for partition, follower in asked.items()}
        try:
            starts = await self._list_offsets(channel, asked, EARLIEST)
            ends = await self._list_offsets(channel, asked, LATEST)
        except ClientError:
            # On the next connection.
            for partition, follower in asked.items():
                if self._followers.get(partition) is follower:
                    self._out_of_range.setdefault(partition, follower)
            raise
        for partition, follower in asked.items():
            if self._followers.get(partition) is not follower:
                continue
            start, end = starts.get(partition), ends.get(partition)
            if start is None or end is None:
                self._back_off(partition)  # it is fetched once more, and asked again if need be
                continue
            self._restart(
                partition, follower, epochs[partition], leader_start=start, leader_end=end
            )

    def _restart(
        self,
        partition: PartitionId,
        follower: Follower,
        leader_epoch: LeaderEpoch,
        *,
        leader_start: Offset,
        leader_end: Offset,
    ) -> None:
        end_before = follower.log.end_offset
        try:
            is_restarted = follower.restart_at(
                leader_epoch=leader_epoch,
                leader_start=leader_start,
                leader_end=leader_end,
                in_steps=True,
            )
        except CorruptData as damage:
            self._failed(partition, follower, f"own log is corrupt: {damage}")
            return
        except DiskError as error:
            self._disk_failed(partition, follower, error)
            return
        if follower.is_cutting:
            self._cut_in_steps(partition, follower)
            return
        if is_restarted and follower.log.end_offset == end_before:
            # To ask again at once would go on for ever.
            reason = (
                f"the leader, with offsets {leader_start} to {leader_end}, refuses {end_before}"
            )
            self._failed(partition, follower, reason)
            return
        if is_restarted:
            logger.warning(
                "replica partition=%s leader=%d out_of_range_offset=%d leader_start=%d "
                "leader_end=%d restarted_at=%d",
                follower.name, self.leader, end_before, leader_start, leader_end,
                follower.log.end_offset,
            )  # fmt: skip
        self._want(partition, follower)

    async def _list_offsets(
        self, channel: "ViewChannel", asked: dict[PartitionId, Follower], timestamp: int
    ) -> dict[PartitionId, Offset]:
        topics: dict[str, ListOffsetsTopic] = {}
        ids: dict[tuple[str, int], PartitionId] = {}
        for partition, follower in asked.items():
            name, index = follower.name.topic, follower.name.partition
            topic = topics.setdefault(name, ListOffsetsTopic(name=name))
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=index,
                    current_leader_epoch=follower.leader_epoch,
                    timestamp=timestamp,
                )
            )
            ids[name, index] = partition
        response = await channel.ask(
            ListOffsetsRequest(replica_id=self._node_id, topics=list(topics.values())),
            ListOffsetsResponse,
            timeout_ms=self._settings.replica_socket_timeout_ms,
        )
        return {
            ids[topic.name, found.partition_index]: Offset(found.offset)
            for topic in response.topics
            for found in topic.partitions
            if found.error_code == ErrorCode.NONE and (topic.name, found.partition_index) in ids
        }

    # Connections

    def _replied(self) -> None:
        self._failures = 0
        self._lost_ms = None
        if self._is_told:
            self._is_told = False
            logger.info("replica fetcher leader=%d connected=true", self.leader)

    async def _session_lost(self, code: int) -> None:
        """It is opened again at once; a leader that goes on so is given time."""
        if self._session.outstanding == 0:
            self._failures += 1
            if self._failures > 1:
                await self._wait_after_failure(f"error code {code} to each fetch")

    async def _wait_to_connect(self, error: ClientError) -> None:
        """The first time after a reply not at all: the leader may have closed an old connection."""
        if isinstance(error, NodeDown) or self._failures:
            await self._wait_after_failure(str(error))
        else:
            self._failures = 1

    async def _wait_after_failure(self, reason: str) -> None:
        """A little, growing; a change of the metadata that concerns this node ends the wait."""
        if not self._is_told:
            self._is_told = True
            logger.warning(
                "replica fetcher leader=%d connected=false reason=%s", self.leader, reason
            )
        self._failures += 1
        wait_ms = min(RECONNECT_WAIT_MS_MIN << min(self._failures, 10), RECONNECT_WAIT_MS_MAX)
        try:
            await asyncio.wait_for(self._hurry.wait(), wait_ms / 1000)
        except TimeoutError:
            return


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
