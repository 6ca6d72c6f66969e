"""One node, from its start to its crash: its replica on its disk, as a broker's shell drives it."""

from collections.abc import Callable
from typing import Final

from penstock.log.errors import CorruptRun
from penstock.log.opening import LeftBehind, open_log
from penstock.log.partition_log import PartitionLog
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.replication.follower import Follower, Position, Taken
from penstock.replication.followers import NO_BROKER_EPOCH, InSyncChange
from penstock.replication.partition import Appended, Partition
from penstock.sim.replication.checker import Checker
from penstock.sim.replication.controller import NO_LEADER, Image
from penstock.sim.replication.disk import ReplicaDisk
from penstock.sim.replication.flaws import ReplicationFlaw
from penstock.sim.replication.serving import read_records, refuse_fetch
from penstock.sim.replication.violation import Violation
from penstock.wire.messages.fetch import PartitionData

PARTITION: Final = TopicPartition("t", 0)
TOPIC_ID: Final = TopicId(bytes(15) + b"\x01")
BEGIN_MS: Final = 1_700_000_000_000
LAG_MS_MAX: Final = 800


class Fetch:
    """A fetch on its way, waiting at the leader, or answered."""

    __slots__ = ("answer", "asked", "broker_epoch", "done", "high_watermark", "sender", "to")

    def __init__(self, sender: "Process", to: NodeId, asked: Position) -> None:
        self.sender = sender
        self.to = to
        self.asked = asked
        self.broker_epoch = sender.broker_epoch
        self.high_watermark = sender.high_watermark  # that the follower knows
        self.answer: PartitionData | None = None
        self.done = False


class AwaitedAck:
    """A client that waits; see `AckSlot` in `replication/ack_queue`."""

    __slots__ = ("_process", "checksum", "offset")

    def __init__(self, process: "Process", offset: Offset, checksum: int) -> None:
        self._process = process
        self.offset = offset
        self.checksum = checksum

    def done(self, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            self._process.acked.append(self)


class Process:
    """A node that runs. The run moves messages and time, and calls `settle` after each event."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        node_count: int,
        disk: ReplicaDisk,
        checker: Checker,
        successors: Callable[[], list[tuple[NodeId, PartitionLog]]],
        flaw: ReplicationFlaw | None,
        acks_wait_for_syncs: bool,
        segment_bytes: int,
        in_sync_min: int,
        now_ms: int,
    ) -> None:
        self.node_id = node_id
        self.disk = disk
        self.alive = True
        self.broker_epoch = NO_BROKER_EPOCH
        self.image: Image | None = None
        self.replica: Partition | Follower | None = None
        self.fetch: Fetch | None = None
        self.fetch_from_ms = 0  # not before: after a refusal
        self.parked: dict[NodeId, Fetch] = {}
        self.is_syncing = False
        self.wants_change = False  # of the in-sync set
        self.changes_sent = 0
        self.acked: list[AwaitedAck] = []
        self.asks_range = False
        self._nodes = tuple(NodeId(number) for number in range(node_count))
        self._checker = checker
        self._successors = successors
        self._flaw = flaw
        self._fsync = acks_wait_for_syncs
        self._segment_bytes = segment_bytes
        self.log = open_log(
            disk=disk,
            directory="/t-0",
            partition=PARTITION,
            topic_id=TOPIC_ID,
            settings=self._settings(in_sync_min),
            now_ms=BEGIN_MS + now_ms,
            left=LeftBehind(start_offset=disk.start_offset),
        )
        self._held = Offset(0)  # up to where the checker knows of our records
        self._checked = min(disk.high_watermark, self.log.end_offset)  # the same of the watermark
        self._shown = Offset(0)  # the highest watermark of this process
        self._parked_state = (-1, -1)

    @property
    def high_watermark(self) -> Offset:
        return self.disk.high_watermark if self.replica is None else self.replica.high_watermark

    @property
    def leads(self) -> bool:
        return isinstance(self.replica, Partition)

    # Metadata

    def apply(self, image: Image, *, now_ms: int) -> None:
        """Becomes what the metadata say; settings come first, as the broker applies them."""
        if self.image is not None and image.version <= self.image.version:
            return
        before, self.image = self.image, image
        replica = self.replica
        if before is None or image.in_sync_min != before.in_sync_min:
            settings = self._settings(image.in_sync_min)
            is_deposed = isinstance(replica, Partition) and image.leader != self.node_id
            if replica is None or is_deposed:
                self.log.reconfigure(settings)
            else:
                replica.reconfigure(settings)
        if image.leader == self.node_id:
            if isinstance(replica, Partition):
                self._lead_on(replica, image, now_ms=now_ms)
            else:
                self._lead(image, now_ms=now_ms)
        elif isinstance(replica, Follower):
            if image.leader_epoch != replica.leader_epoch:
                self._forget_fetch()
            replica.change_leader(
                leader=None if image.leader == NO_LEADER else image.leader,
                leader_epoch=LeaderEpoch(image.leader_epoch),
                partition_epoch=image.partition_epoch,
            )
        else:
            self._follow(image)

    def _lead(self, image: Image, *, now_ms: int) -> None:
        known = self.high_watermark
        if self.replica is not None:
            self.replica.end()
        self._forget_fetch()
        self._checker.elected(
            image.leader_epoch,
            self.node_id,
            self.broker_epoch,
            self.log,
            recovering=image.recovering,
        )
        if self._flaw is ReplicationFlaw.WATERMARK_FORGOTTEN:
            known = self.log.start_offset
        self.replica = Partition(
            self.log,
            leader_epoch=LeaderEpoch(image.leader_epoch),
            partition_epoch=image.partition_epoch,
            node_id=self.node_id,
            replicas=self._nodes,
            in_sync=image.in_sync,
            recovering=image.recovering,
            high_watermark=known,
            now_ms=now_ms,
        )
        self.wants_change = True

    def _lead_on(self, partition: Partition, image: Image, *, now_ms: int) -> None:
        is_new_epoch = image.leader_epoch != partition.leader_epoch
        ends: list[tuple[NodeId, Offset, int]] = []
        if is_new_epoch:
            self._checker.elected(
                image.leader_epoch,
                self.node_id,
                self.broker_epoch,
                self.log,
                recovering=image.recovering,
            )
            for node in self._nodes:
                state = partition.followers.get(node)
                if state is not None and state.end_offset >= 0:
                    ends.append((node, state.end_offset, state.broker_epoch))
        partition.change_replicas(
            leader_epoch=LeaderEpoch(image.leader_epoch),
            partition_epoch=image.partition_epoch,
            replicas=self._nodes,
            in_sync=image.in_sync,
            recovering=image.recovering,
            now_ms=now_ms,
        )
        if self._flaw is ReplicationFlaw.ENDS_KEPT_OVER_EPOCH:
            for node, offset, broker_epoch in ends:
                partition.follower_fetched(
                    node, offset=offset, broker_epoch=broker_epoch, now_ms=now_ms
                )
        self.wants_change = True

    def _follow(self, image: Image) -> None:
        known = self.high_watermark
        if self.replica is not None:
            self.replica.end()
        self._forget_fetch()
        self.parked.clear()
        self.wants_change = False
        self.replica = Follower(
            self.log,
            leader=None if image.leader == NO_LEADER else image.leader,
            leader_epoch=LeaderEpoch(image.leader_epoch),
            partition_epoch=image.partition_epoch,
            high_watermark=known,
        )

    def can_join(self, node: NodeId, broker_epoch: int) -> bool:
        image = self.image
        return (
            image is not None
            and self._flaw is not ReplicationFlaw.NEVER_JOINS
            and not image.fenced[node]
            and image.broker_epochs[node] == broker_epoch
        )

    # The leader's side

    def produce(self, value: bytes, *, now_ms: int) -> None:
        """A client writes one batch with acks of all."""
        partition = self.replica
        if not isinstance(partition, Partition):
            return
        at_ms = BEGIN_MS + now_ms
        batch = build_batch([Record(None, value, timestamp_ms=at_ms)])
        data = memoryview(batch)
        outcome = partition.append(data, all_acks=True, now_ms=at_ms)
        if isinstance(outcome, Appended):
            ack = AwaitedAck(self, outcome.base_offset, BatchView(data).checksum)
            is_early = self._flaw is ReplicationFlaw.ACK_BEFORE_REPLICATION
            if is_early or partition.high_watermark >= outcome.end_offset:
                self.acked.append(ack)
            else:
                partition.acks.add(outcome.end_offset, ack)

    def answer(self, fetch: Fetch, *, size_bytes_max: int, now_ms: int) -> PartitionData | None:
        """The answer to a fetch; None when it waits for something to tell."""
        partition = self.replica
        image = self.image
        node = fetch.sender.node_id
        if not isinstance(partition, Partition) or image is None:
            return PartitionData(
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=-1, records=b""
            )
        asked = fetch.asked
        refusal = refuse_fetch(
            partition,
            node,
            asked,
            broker_epoch=fetch.broker_epoch,
            registered_epoch=image.broker_epochs[node],
        )
        skipped = (
            self._flaw is ReplicationFlaw.TRUNCATION_SKIPPED
            and refusal is not None
            and refusal.diverging_epoch is not None
            and asked.fetch_offset <= self.log.end_offset
        )
        if refusal is not None and not skipped:
            return refusal
        if partition.follower_fetched(
            node,
            offset=asked.fetch_offset,
            broker_epoch=fetch.broker_epoch,
            log_start_offset=asked.log_start_offset,
            now_ms=now_ms,
        ):
            self.wants_change = True
        found = self._read(partition, fetch, size_bytes_max)
        if not found.records and found.high_watermark <= fetch.high_watermark:
            self.parked[node] = fetch
            return None
        return found

    def answer_parked(self, *, size_bytes_max: int) -> list[Fetch]:
        """The fetches that waited, with their answers, if there is news."""
        partition = self.replica
        if not self.parked:
            return []
        if isinstance(partition, Partition):
            state = (int(self.log.end_offset), int(partition.high_watermark))
            if state == self._parked_state:
                return []
            self._parked_state = state
        fetches = list(self.parked.values())
        self.parked.clear()
        for fetch in fetches:
            fetch.answer = self.answer_late(fetch, size_bytes_max=size_bytes_max)
        return fetches

    def answer_late(self, fetch: Fetch, *, size_bytes_max: int) -> PartitionData:
        """The answer to a fetch that has waited: what it told was taken into account before."""
        partition = self.replica
        if not isinstance(partition, Partition) or (
            partition.leader_epoch != fetch.asked.leader_epoch
        ):
            return PartitionData(
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=-1, records=b""
            )
        if fetch.asked.fetch_offset < self.log.start_offset:
            return PartitionData(
                error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1, records=b""
            )
        return self._read(partition, fetch, size_bytes_max)

    def next_change(self, *, now_ms: int) -> InSyncChange | None:
        """The change of the in-sync set to ask the controller for, if any."""
        partition = self.replica
        self.wants_change = False
        if not isinstance(partition, Partition):
            return None
        change = partition.in_sync_change(
            now_ms=now_ms, lag_ms_max=LAG_MS_MAX, can_join=self.can_join
        )
        if change is not None and self._flaw is ReplicationFlaw.SHRINK_BEFORE_CONFIRMED:
            members = frozenset(node for node, _ in change.members)
            if members < partition.followers.in_sync:
                partition.in_sync_confirmed(
                    change,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    in_sync=members,
                    recovered=True,
                    now_ms=now_ms,
                )
        return change

    def change_answered(
        self, change: InSyncChange, code: ErrorCode, image: Image | None, *, now_ms: int
    ) -> bool:
        """Whether the change is to be asked for again."""
        partition = self.replica
        if not isinstance(partition, Partition):
            return False
        if code is not ErrorCode.NONE or image is None:
            return partition.in_sync_refused(change, code)
        in_sync = image.in_sync
        partition_epoch = image.partition_epoch
        if self._flaw is ReplicationFlaw.SHRINK_BEFORE_SETTING:
            # As if it were the answer that nothing has changed: applied at once.
            partition.partition_epoch = max(partition.partition_epoch, partition_epoch)
        partition.in_sync_confirmed(
            change,
            leader_epoch=LeaderEpoch(image.leader_epoch),
            partition_epoch=partition_epoch,
            in_sync=in_sync,
            recovered=not image.recovering,
            now_ms=now_ms,
        )
        return False

    def delete_records(self) -> None:
        partition = self.replica
        if isinstance(partition, Partition) and self.log.start_offset < partition.high_watermark:
            partition.advance_start(partition.high_watermark)

    # The follower's side

    def next_fetch(self) -> Fetch | None:
        """What to ask of the leader now, if nothing is on its way."""
        follower = self.replica
        if not isinstance(follower, Follower) or self.fetch is not None or self.asks_range:
            return None
        asked = follower.position()
        if asked is None or follower.leader is None:
            return None
        self.fetch = Fetch(self, follower.leader, asked)
        return self.fetch

    def take(self, fetch: Fetch, data: PartitionData, *, now_ms: int) -> Taken:
        follower = self.replica
        if self.fetch is fetch:
            self.fetch = None
        if not isinstance(follower, Follower):
            return Taken.STALE
        entries = self.log.epochs.entries
        try:
            taken = follower.take(fetch.asked, data, now_ms=BEGIN_MS + now_ms)
        except CorruptRun as error:
            raise Violation(f"node {self.node_id} cannot append {error}") from error
        if taken is Taken.TRUNCATED:
            self._was_cut(follower)
            if self._flaw is ReplicationFlaw.EPOCHS_NOT_CUT:
                for entry in entries:
                    if entry.start_offset >= self.log.end_offset:
                        self.log.epochs.assign(entry.epoch, entry.start_offset)
        for entry in self.log.epochs.entries[-1:]:
            if entry.start_offset >= self.log.end_offset > self.log.start_offset:
                raise Violation(
                    f"epoch list not cut: node {self.node_id} ends at {self.log.end_offset}, with "
                    f"epoch {entry.epoch} from {entry.start_offset}"
                )
        return taken

    def restart_at(self, leader: "Process", asked: Position) -> None:
        """The leader tells where its log begins and ends."""
        follower = self.replica
        partition = leader.replica
        self.asks_range = False
        if (
            isinstance(follower, Follower)
            and isinstance(partition, Partition)
            and partition.leader_epoch == asked.leader_epoch
        ):
            follower.restart_at(
                leader_epoch=asked.leader_epoch,
                leader_start=leader.log.start_offset,
                leader_end=leader.log.end_offset,
            )
            self._was_cut(follower)

    def forget_fetch(self, fetch: Fetch) -> None:
        if self.fetch is fetch:
            self.fetch = None

    # Both

    def synced(self, offset: Offset) -> None:
        self.is_syncing = False
        self.log.mark_synced(min(offset, self.log.end_offset))
        if self.replica is not None:
            self.replica.synced()

    def settle(self) -> None:
        """After each event: what has become committed is compared with what others have."""
        replica = self.replica
        if replica is None:
            return
        replica.check()
        log = self.log
        held = log.recovery_point if self._fsync else log.end_offset
        if held > self._held:
            self._checker.holds(self.node_id, log, start=self._held, end=held)
            self._held = held
        watermark = replica.high_watermark
        if watermark > self._checked:
            self._checker.commits(
                self.node_id,
                log,
                epoch=replica.leader_epoch,
                start=self._checked,
                end=watermark,
                successors=self._successors() if isinstance(replica, Partition) else [],
            )
            self._checked = watermark
        if watermark < self._shown:
            self._checker.went_back(self.node_id, before=self._shown, after=watermark)
        self._shown = watermark
        if isinstance(replica, Partition):
            if watermark >= replica.epoch_start_offset:
                self._checker.told_end(self.node_id, replica.leader_epoch, watermark)
            if self.acked:
                acked, self.acked = self.acked, []
                for ack in acked:
                    self._checker.acks(
                        self.node_id,
                        ack.offset,
                        ack.checksum,
                        broker_epoch=self.broker_epoch,
                        epoch=replica.leader_epoch,
                        in_sync_min=replica.followers.in_sync_min,
                    )
        self.disk.start_offset = log.start_offset

    def stop(self) -> None:
        self.alive = False
        self.log.abandon()

    def _was_cut(self, follower: Follower) -> None:
        self._held = min(self._held, self.log.end_offset)
        self._checked = min(self._checked, self.log.end_offset)
        before = follower.cut_below_watermark
        if before is not None:
            self._checker.went_back(self.node_id, before=before, after=follower.high_watermark)
            self._shown = follower.high_watermark

    def _read(self, partition: Partition, fetch: Fetch, size_bytes_max: int) -> PartitionData:
        found = read_records(partition, fetch.asked, size_bytes_max=size_bytes_max)
        if self._flaw is ReplicationFlaw.WATERMARK_TOO_EARLY:
            found.high_watermark = self.log.end_offset
        return found

    def _forget_fetch(self) -> None:
        self.fetch = None
        self.asks_range = False
        self.fetch_from_ms = 0

    def _settings(self, in_sync_min: int) -> TopicSettings:
        fsync = self._fsync
        if self._flaw is ReplicationFlaw.FETCH_BEFORE_SYNC and self.node_id != 0:
            fsync = False
        return TopicSettings(
            min_insync_replicas=in_sync_min,
            penstock_ack_fsync=fsync,
            segment_bytes=self._segment_bytes,
        )
