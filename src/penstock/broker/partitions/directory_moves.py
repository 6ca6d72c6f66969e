"""Moves replicas between the log directories of this broker, in the background (KIP-113, KIP-858).

    asked      a future log is made in the other directory, or one that a start has found is opened
    copied     in turns, some hundred KiB each, at `replica.alter.log.dirs.io.max.bytes.per.second`
    assigned   the controller is told; the metadata name the new directory some milliseconds later
    swapped    in one step, while nobody can append: the future log is closed, renamed and opened,
               the replica goes on with it, and the log before is deleted

What comes next is decided in `replication/directory_move`, and what is copied in `log/copying`.
Another request ends a move: back to where the replica is, or to a third directory. So does the end
of the replica; what was copied is deleted. If the directory of the replica fails, the copy is left
to the next start.

While a replica is moved its log is not compacted: a copy of which one half was made before a
compaction, and the other after it, would be taken for compacted. Start reading at
`DirectoryMoves.move` and `DirectoryMoves.run`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from penstock.broker.partitions.directory_assignments import DirectoryAssignments
from penstock.broker.partitions.partitions import Partitions
from penstock.log.copying import CaughtUp, make_same, next_step, take_step
from penstock.log.errors import CorruptData, CorruptRun, TopicIdMismatch
from penstock.log.layout import fits_future
from penstock.log.partition_log import PartitionLog
from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import PartitionImage
from penstock.model.error import ErrorCode
from penstock.model.events import THROTTLED
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import KIB, MIB
from penstock.replication.directory_move import Act, next_act
from penstock.replication.follower import Follower
from penstock.replication.replica import Replica
from penstock.replication.throttle import ReplicationThrottle
from penstock.world.errors import DiskError
from penstock.world.event_log import tell
from penstock.world.ports import Clock, Disk

logger = logging.getLogger(__name__)

COPY_BYTES_MAX = 512 * KIB  # in one turn
SYNC_BYTES = 64 * MIB  # copied since the last sync, before the next one
SWAP_BYTES_MAX = 2 * MIB  # copied, and synced, in the turn in which the logs are swapped
LOOK_MS = 20  # while there is nothing to do but wait
RETRY_MS = 1_000  # after a disk was full


@dataclass(slots=True, kw_only=True)
class Move:
    """One that is under way; its future log is the `LogDirectories`'."""

    path: str  # where the replica is going to be
    started_ms: int
    unsynced_bytes: int = 0  # of the future log
    copied_bytes: int = 0
    was_caught_up: bool = False  # from then on it is not throttled: it follows what clients write
    told_full: bool = False


class DirectoryMoves:
    """Call `note` after each change of the metadata, and keep `run` running. `ids` are those of the
    directories, by path. `is_compacting` tells of a partition whose log is being compacted.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        partitions: Partitions,
        ids: Mapping[str, bytes],
        assignments: DirectoryAssignments,
        disk: Disk,
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._directories = partitions.directories
        self._ids = ids
        self._assignments = assignments
        self._disk = disk
        self._clock = clock
        self._image = Image()
        self._moves: dict[TopicPartition, Move] = {}
        self._throttle = ReplicationThrottle()
        self._news = asyncio.Event()
        self.is_compacting: Callable[[TopicPartition], bool] = lambda _: False
        partitions.directory_failed = self._directory_failed

    def is_moving(self, name: TopicPartition) -> bool:
        return name in self._moves

    def check(self) -> None:
        for name, move in self._moves.items():
            assert self._directories.future_home_of(name) == move.path, name

    def limit(self, rate_bytes: int | None) -> None:
        """The rate as it is in effect now; None: there is no limit."""
        if rate_bytes != self._throttle.rate_bytes:
            tell(logger, THROTTLED, role="log_dirs", rate_bytes=rate_bytes)
        self._throttle.limit(rate_bytes, now_ms=self._clock.monotonic_ms())

    def move(self, name: TopicPartition, path: str) -> ErrorCode:
        """Begins to move a replica to a directory; ends the move to another one. A partition of
        which there is no replica here yet is going to be made there.
        """
        directories = self._directories
        if not fits_future(name):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if path in directories.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if path not in directories.online or path not in self._ids:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if directories.future_home_of(name) not in (None, path):
            self._cancel(name)
        partition = self._partition(name)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._node_id not in partition.replicas:
            directories.prefer(name, path)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        replica = self._partitions.replica(name)
        if replica is None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if name in self._moves or directories.home_of(name) == path:
            return ErrorCode.NONE
        return self._begin(replica, path)

    def note(self, image: Image) -> None:
        """The logs of the image are open, and what it says of directories is noted."""
        self._image = image
        for name, path in self._directories.resumable().items():
            replica = self._partitions.replica(name)
            partition = self._partition(name)
            if replica is not None and partition is not None:
                self._begin(replica, path)
                if partition.directory(self._node_id) == self._ids[path]:
                    self._assignments.assign(name, path)  # as it was told before
        for name in [name for name in self._moves if self._directories.future_of(name) is None]:
            del self._moves[name]  # deleted with its replica

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if not self._moves:
                self._news.clear()
                await self._news.wait()
            wait_ms = LOOK_MS
            for name in list(self._moves):
                wait_ms = min(wait_ms, await self._advance(name))
                await asyncio.sleep(0)
            if wait_ms:
                await asyncio.sleep(wait_ms / 1000)

    async def _advance(self, name: TopicPartition) -> int:
        """Some of one move; returns after how many milliseconds to look again."""
        move = self._moves.get(name)
        future = self._directories.future_of(name)
        if move is None or future is None:
            return LOOK_MS  # it has ended meanwhile
        try:
            if move.unsynced_bytes >= SYNC_BYTES:
                await self._sync(move, future)
                return 0
            if self._is_due_to_swap(name, move) and move.unsynced_bytes > SWAP_BYTES_MAX:
                await self._sync(move, future)
                return 0
            return self._take_turn(name, move, future)
        except (CorruptData, CorruptRun) as error:
            logger.error("partition=%s moved=false reason=%s", name, error)
            if name in self._moves:
                self._cancel(name)
        except DiskError as error:
            self._failed(name, move, error)
        return RETRY_MS

    async def _sync(self, move: Move, future: PartitionLog) -> None:
        end_offset, unsynced_bytes = future.end_offset, move.unsynced_bytes
        await self._disk.sync(future.unsynced_files())
        if not future.is_closed:
            future.mark_synced(end_offset)
            move.unsynced_bytes -= unsynced_bytes

    def _take_turn(self, name: TopicPartition, move: Move, future: PartitionLog) -> int:
        """In one step: no record is appended between the look at both logs and the swap."""
        replica = self._partitions.replica(name)
        partition = self._partition(name)
        if replica is None or partition is None or self.is_compacting(name):
            return LOOK_MS
        if future.settings is not replica.settings:
            future.reconfigure(replica.settings)
        turn_bytes = 0
        turn_bytes_max = SWAP_BYTES_MAX if self._is_due_to_swap(name, move) else 1
        while True:
            step = next_step(replica.log, future)
            match next_act(
                step,
                assigned=partition.directory(self._node_id),
                target=self._ids[move.path],
                may_assign=self._node_id not in (*partition.elr, *partition.last_known_elr),
                is_busy=isinstance(replica, Follower) and replica.is_cutting,
            ):
                case Act.COPY:
                    if turn_bytes >= turn_bytes_max:
                        return 0
                    room_bytes, wait_ms = self._room(move)
                    if wait_ms:
                        return wait_ms
                    copied = take_step(
                        step,
                        replica.log,
                        future,
                        size_bytes_max=room_bytes,
                        now_ms=self._clock.now_ms(),
                    )
                    self._count(move, copied)
                    turn_bytes += max(copied, 1)
                case Act.ASSIGN:
                    move.was_caught_up = True
                    self._assignments.assign(name, move.path)
                    return LOOK_MS
                case Act.WAIT:
                    move.was_caught_up = True
                    return LOOK_MS
                case Act.SWAP:
                    assert isinstance(step, CaughtUp), step
                    self._swap(replica, move, future)
                    return LOOK_MS

    def _swap(self, replica: Replica, move: Move, future: PartitionLog) -> None:
        name, before = replica.name, replica.log
        home = self._directories.home_of(name)
        assert home is not None, name
        make_same(before, future)
        noted = before.noted_watermark
        log = self._directories.replace_by_future(
            name,
            watermark=None if noted is None else replica.high_watermark,
            now_ms=self._clock.now_ms(),
        )
        self._partitions.move_to(replica, log)
        del self._moves[name]
        self._assignments.withdraw(name)
        logger.info(
            "partition=%s moved=true from=%s to=%s copied_bytes=%d took_ms=%d",
            name, home, move.path, move.copied_bytes,
            self._clock.monotonic_ms() - move.started_ms,
        )  # fmt: skip
        try:
            self._directories.delete_replaced(home, name)
        except DiskError as error:
            self._partitions.take_offline(home, error)

    def _begin(self, replica: Replica, path: str) -> ErrorCode:
        name = replica.name
        try:
            self._directories.open_future(name, path, replica.topic_id, now_ms=self._clock.now_ms())
        except (DiskError, CorruptData, TopicIdMismatch) as error:
            logger.error("partition=%s moved=false to=%s reason=%s", name, path, error)
            if isinstance(error, DiskError) and not error.full:
                self._partitions.take_offline(path, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._moves[name] = Move(path=path, started_ms=self._clock.monotonic_ms())
        self._news.set()
        logger.info(
            "partition=%s moving=true from=%s to=%s", name, self._directories.home_of(name), path
        )
        return ErrorCode.NONE

    def _cancel(self, name: TopicPartition) -> None:
        move = self._moves.pop(name, None)
        self._directories.delete_future(name)
        self._assignments.withdraw(name)
        if move is not None:
            logger.info("partition=%s moving=false to=%s", name, move.path)

    def _failed(self, name: TopicPartition, move: Move, error: DiskError) -> None:
        """A disk that is full serves again once there is room; any other failure is its end."""
        if error.full:
            if self._directories.future_of(name) is None:
                logger.error("partition=%s moved=false full=true reason=%s", name, error)
                self._cancel(name)
            elif not move.told_full:
                logger.error("partition=%s moving=true full=true reason=%s", name, error)
                move.told_full = True
            return
        is_target = error.path.startswith(f"{move.path}/") or error.path == move.path
        home = self._directories.home_of(name)
        self._partitions.take_offline(move.path if is_target or home is None else home, error)

    def _directory_failed(self, path: str, lost: list[TopicPartition]) -> None:
        for name, move in list(self._moves.items()):
            if move.path == path:
                del self._moves[name]
                self._assignments.withdraw(name)
            elif name in lost:
                del self._moves[name]
                self._directories.leave_future(name)
                # It may be told already that the replica is in the other one.
                self._assignments.assign(name, path)

    def _is_due_to_swap(self, name: TopicPartition, move: Move) -> bool:
        partition = self._partition(name)
        if partition is None or self._node_id not in partition.replicas:
            return False
        return partition.directory(self._node_id) == self._ids[move.path]

    def _room(self, move: Move) -> tuple[int, int]:
        """How many bytes may be copied now, or for how many milliseconds none."""
        if self._throttle.rate_bytes is None or move.was_caught_up:
            return COPY_BYTES_MAX, 0
        now_ms = self._clock.monotonic_ms()
        wait_ms = self._throttle.wait_ms(now_ms=now_ms)
        if wait_ms:
            return 0, wait_ms
        return min(COPY_BYTES_MAX, self._throttle.room_bytes(now_ms=now_ms)), 0

    def _count(self, move: Move, byte_count: int) -> None:
        move.copied_bytes += byte_count
        move.unsynced_bytes += byte_count
        move.told_full = False
        if self._throttle.rate_bytes is not None:
            self._throttle.passed(byte_count, now_ms=self._clock.monotonic_ms())

    def _partition(self, name: TopicPartition) -> PartitionImage | None:
        topic = self._image.topics_by_name.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            return None
        return topic.partitions[name.partition]
