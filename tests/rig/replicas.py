"""Replicas of one partition in memory, and what passes between them as values."""

from penstock.log.opening import LeftBehind, open_log
from penstock.log.partition_log import PartitionLog
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.replication.follower import Follower, Taken
from penstock.replication.followers import InSyncChange
from penstock.replication.partition import Appended, Partition
from penstock.sim.replication.serving import answer_fetch
from rig.memory_disk import MemoryDisk
from rig.produced import NOW_MS, produced

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
LAG_MS_MAX = 30_000


def open_replica(
    disk: MemoryDisk | None = None,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    start_offset: int = 0,
    **settings: object,
) -> PartitionLog:
    return open_log(
        disk=MemoryDisk() if disk is None else disk,
        directory="/t-0",
        partition=TopicPartition("t", 0),
        topic_id=TopicId(bytes(15) + b"\x01"),
        settings=TopicSettings(**settings),  # type: ignore[arg-type]
        now_ms=NOW_MS,
        left=LeftBehind(
            clean=clean,
            recovery_point=Offset(recovery_point),
            start_offset=Offset(start_offset),
        ),
    )


def lead(
    log: PartitionLog | None = None,
    *,
    epoch: int = 1,
    partition_epoch: int = 0,
    replicas: tuple[NodeId, ...] = (ONE, TWO, THREE),
    in_sync: tuple[NodeId, ...] = (ONE, TWO, THREE),
    high_watermark: int | None = None,
    recovering: bool = False,
    now_ms: int = NOW_MS,
    **settings: object,
) -> Partition:
    return Partition(
        open_replica(**settings) if log is None else log,
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=partition_epoch,
        node_id=ONE,
        replicas=replicas,
        in_sync=in_sync,
        recovering=recovering,
        high_watermark=None if high_watermark is None else Offset(high_watermark),
        now_ms=now_ms,
    )


def follow(
    log: PartitionLog | None = None,
    *,
    epoch: int = 1,
    leader: NodeId = ONE,
    high_watermark: int | None = None,
    **settings: object,
) -> Follower:
    return Follower(
        open_replica(**settings) if log is None else log,
        leader=leader,
        leader_epoch=LeaderEpoch(epoch),
        high_watermark=None if high_watermark is None else Offset(high_watermark),
    )


def append(partition: Partition, count: int = 1, *, all_acks: bool = False) -> Offset:
    outcome = partition.append(produced(count), all_acks=all_acks, now_ms=NOW_MS)
    assert isinstance(outcome, Appended), outcome
    partition.check()
    return outcome.end_offset


def fetched(
    partition: Partition, node: NodeId, offset: int, *, broker_epoch: int = 7, now_ms: int = NOW_MS
) -> bool:
    """The node asks for `offset`; whether the in-sync set should change."""
    wanted = partition.follower_fetched(
        node, offset=offset, broker_epoch=broker_epoch, log_start_offset=0, now_ms=now_ms
    )
    partition.check()
    return wanted


def fetch_once(
    leader: Partition,
    follower: Follower,
    *,
    node: NodeId = TWO,
    broker_epoch: int = 7,
    size_bytes_max: int = 1 << 20,
    now_ms: int = NOW_MS,
) -> Taken:
    """One fetch and its reply."""
    asked = follower.position()
    assert asked is not None
    data, _ = answer_fetch(
        leader,
        node,
        asked,
        broker_epoch=broker_epoch,
        size_bytes_max=size_bytes_max,
        now_ms=now_ms,
    )
    taken = follower.take(asked, data, now_ms=now_ms)
    leader.check()
    follower.check()
    follower.log.check()
    return taken


def catch_up(leader: Partition, follower: Follower, *, node: NodeId = TWO) -> list[Taken]:
    """Fetches until nothing changes any more."""
    rounds: list[Taken] = []
    while not rounds or rounds[-1] is not Taken.UNCHANGED:
        rounds.append(fetch_once(leader, follower, node=node))
        assert len(rounds) < 50, rounds
    return rounds


def change(
    partition: Partition,
    *,
    now_ms: int = NOW_MS,
    can_join: tuple[NodeId, ...] = (TWO, THREE),
) -> InSyncChange | None:
    found = partition.in_sync_change(
        now_ms=now_ms, lag_ms_max=LAG_MS_MAX, can_join=lambda node, _: node in can_join
    )
    partition.check()
    return found


def confirm(partition: Partition, asked: InSyncChange) -> bool:
    """The controller has made the change, and says so; whether it counts at once."""
    confirmed = partition.in_sync_confirmed(
        asked,
        leader_epoch=asked.leader_epoch,
        partition_epoch=asked.partition_epoch + 1,
        in_sync=members(asked),
        recovered=True,
        now_ms=NOW_MS,
    )
    partition.check()
    return confirmed


def tell(partition: Partition, asked: InSyncChange) -> None:
    """The change comes with the metadata."""
    partition.change_replicas(
        leader_epoch=asked.leader_epoch,
        partition_epoch=asked.partition_epoch + 1,
        replicas=partition.followers.replicas,
        in_sync=members(asked),
        now_ms=NOW_MS,
    )
    partition.check()


def members(asked: InSyncChange) -> tuple[NodeId, ...]:
    return tuple(node for node, _ in asked.members)


def contents(log: PartitionLog) -> list[bytes]:
    return [bytes(batch.view) for batch in log.batches_from(log.start_offset)]


class Slot:
    """An ack that is awaited."""

    def __init__(self) -> None:
        self.codes: list[ErrorCode] = []

    def done(self, code: ErrorCode) -> None:
        self.codes.append(code)
