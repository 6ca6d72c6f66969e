"""One partition on a real disk: what is appended, what is seen, and who is told."""

from pathlib import Path

import pytest

from penstock.log.opening import open_log
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.errors import InvalidBatch
from penstock.records.layout import NO_TIMESTAMP
from penstock.replication.leader import Refusal
from penstock.replication.partition import Appended, Partition
from penstock.replication.replica import Replica
from penstock.world.real import real_world
from rig.produced import NOW_MS, produced

LEADER = NodeId(1)
FOLLOWER = NodeId(2)


def partition_in(
    path: Path, *, followers: tuple[NodeId, ...] = (), replicas: int = 1, **settings: object
) -> Partition:
    log = open_log(
        disk=real_world(inline=True).disk,
        directory=str(path / "t-0"),
        partition=TopicPartition("t", 0),
        topic_id=TopicId(bytes(15) + b"\x01"),
        settings=TopicSettings(**settings),  # type: ignore[arg-type]
        now_ms=NOW_MS,
    )
    return Partition(
        log,
        leader_epoch=LeaderEpoch(4),
        node_id=LEADER,
        replicas=tuple(NodeId(1 + index) for index in range(replicas)),
        in_sync=(LEADER, *followers),
        now_ms=NOW_MS,
    )


def fetch(partition: Partition, node: NodeId, offset: int) -> None:
    """The follower has the log up to `offset`."""
    partition.follower_fetched(node, offset=offset, now_ms=NOW_MS)
    partition.check()


def append(partition: Partition, data: memoryview, *, all_acks: bool = False) -> Appended:
    outcome = partition.append(data, all_acks=all_acks, now_ms=NOW_MS)
    assert isinstance(outcome, Appended), outcome
    partition.check()
    return outcome


class Noting:
    """An observer that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[int | str] = []

    def advanced(self, partition: Replica, byte_count: int) -> None:
        self.told.append(byte_count)

    def ended(self, partition: Replica) -> None:
        self.told.append("ended")


def test_offsets_are_dense_and_visible_at_once_to_a_sole_replica(tmp_path: Path) -> None:
    partition = partition_in(tmp_path)
    first, second = produced(3), produced(2)
    assert append(partition, first).base_offset == 0
    appended = append(partition, second)
    assert (appended.base_offset, appended.end_offset) == (3, 5)
    assert partition.high_watermark == 5
    stored = BatchView(second)
    assert (stored.base_offset, stored.leader_epoch) == (3, 4)


def test_a_duplicate_is_acked_as_the_first_was_and_not_written(tmp_path: Path) -> None:
    partition = partition_in(tmp_path)
    append(partition, produced())
    append(partition, produced(2, producer_id=5, epoch=0, sequence=0))
    size = partition.log.size_bytes
    again = append(partition, produced(2, producer_id=5, epoch=0, sequence=0))
    assert (again.base_offset, again.end_offset) == (1, 3)
    assert partition.log.size_bytes == size


def test_the_time_of_the_append_is_told_where_the_topic_keeps_it(tmp_path: Path) -> None:
    by_producer = partition_in(tmp_path / "a")
    assert append(by_producer, produced()).log_append_time_ms == NO_TIMESTAMP
    by_broker = partition_in(tmp_path / "b", message_timestamp_type="LogAppendTime")
    assert append(by_broker, produced(timestamp_ms=7)).log_append_time_ms == NOW_MS


def test_an_invalid_batch_changes_nothing(tmp_path: Path) -> None:
    partition = partition_in(tmp_path)
    data = produced()
    data[-1] ^= 1
    with pytest.raises(InvalidBatch) as error:
        partition.append(data, all_acks=False, now_ms=NOW_MS)
    assert error.value.code == ErrorCode.CORRUPT_MESSAGE
    assert partition.log.end_offset == 0


def test_settings_take_effect_with_the_next_batch(tmp_path: Path) -> None:
    partition = partition_in(tmp_path)
    append(partition, produced(value=bytes(1000)))
    partition.reconfigure(TopicSettings(max_message_bytes=500))
    with pytest.raises(InvalidBatch) as error:
        partition.append(produced(value=bytes(1000)), all_acks=False, now_ms=NOW_MS)
    assert error.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_what_a_follower_lacks_is_not_visible(tmp_path: Path) -> None:
    partition = partition_in(tmp_path, followers=(FOLLOWER,), replicas=2)
    append(partition, produced(3))
    assert partition.high_watermark == 0
    assert partition.read(0, size_bytes_max=99, oversized_first=True, committed_only=False) is None
    fetch(partition, FOLLOWER, 3)
    assert partition.high_watermark == 3


def test_only_synced_records_are_visible_where_acks_wait_for_fsync(tmp_path: Path) -> None:
    partition = partition_in(tmp_path)
    append(partition, produced(2))
    partition.reconfigure(TopicSettings(penstock_ack_fsync=True))
    assert partition.high_watermark == 2  # what was shown stays shown
    append(partition, produced(3))
    assert (partition.high_watermark, partition.wants_sync) == (2, True)
    partition.log.sync()
    partition.synced()
    assert (partition.high_watermark, partition.wants_sync) == (5, False)
    partition.check()


def test_records_below_flush_messages_are_visible_unsynced(tmp_path: Path) -> None:
    partition = partition_in(tmp_path, flush_messages=3)
    append(partition, produced(2))
    assert (partition.high_watermark, partition.wants_sync) == (2, False)
    append(partition, produced(2))
    assert (partition.high_watermark, partition.wants_sync) == (2, True)
    partition.log.sync()
    partition.synced()
    assert partition.high_watermark == 4


def test_the_leaders_own_ack_waits_for_its_sync_and_not_for_followers(tmp_path: Path) -> None:
    partition = partition_in(tmp_path, followers=(FOLLOWER,), replicas=2, penstock_ack_fsync=True)
    append(partition, produced(3), all_acks=False)
    assert not partition.vouches_for(Offset(3))
    partition.log.sync()
    partition.synced()
    assert partition.vouches_for(Offset(3))
    assert partition.high_watermark == 0


def test_writes_that_want_all_acks_are_refused_with_too_few_in_sync(tmp_path: Path) -> None:
    partition = partition_in(tmp_path, replicas=3, min_insync_replicas=2)
    refusal = partition.append(produced(), all_acks=True, now_ms=NOW_MS)
    assert isinstance(refusal, Refusal)
    assert refusal.code == ErrorCode.NOT_ENOUGH_REPLICAS
    append(partition, produced(), all_acks=False)


def test_observers_are_told_when_records_become_visible(tmp_path: Path) -> None:
    partition = partition_in(tmp_path, followers=(FOLLOWER,), replicas=2)
    observer = Noting()
    partition.observers[observer] = None
    first, second = produced(), produced()
    append(partition, first)
    append(partition, second)
    observer.told.clear()
    fetch(partition, FOLLOWER, 1)
    fetch(partition, FOLLOWER, 2)
    both = len(first) + len(second)
    assert observer.told == [both, both]  # at least what became visible, never less


def test_an_append_above_the_high_watermark_is_notified_to_all_but_waiting_acks(
    tmp_path: Path,
) -> None:
    """Followers wait for the end of the log; what they have to read commits nothing yet."""
    partition = partition_in(tmp_path, followers=(FOLLOWER,), replicas=2)
    reader, ack = Noting(), Noting()
    partition.observers[reader] = None
    partition.ack_observers[ack] = None
    changes = partition.changes
    append(partition, produced())
    assert partition.high_watermark == 0
    assert (reader.told, ack.told) == ([0], [])
    assert partition.changes > changes  # so that who is about to wait reads again first
    fetch(partition, FOLLOWER, 1)
    assert len(reader.told) == 2
    assert len(ack.told) == 1


def test_what_followers_reached_under_an_older_epoch_does_not_count(tmp_path: Path) -> None:
    other = NodeId(3)
    partition = partition_in(tmp_path, followers=(FOLLOWER, other), replicas=3)
    append(partition, produced(100))
    fetch(partition, FOLLOWER, 90)
    fetch(partition, other, 100)
    assert partition.high_watermark == 90
    partition.change_replicas(
        leader_epoch=LeaderEpoch(7),
        partition_epoch=1,
        replicas=(LEADER, FOLLOWER, other),
        in_sync=(LEADER, other),
    )
    assert partition.high_watermark == 90
    fetch(partition, other, 95)
    assert partition.high_watermark == 95
    partition.check()


def test_observers_are_told_of_the_end_once(tmp_path: Path) -> None:
    partition = partition_in(tmp_path)
    observer = Noting()
    partition.observers[observer] = None
    partition.end()
    partition.check()
    assert observer.told == ["ended"]


def test_a_new_leader_epoch_is_noted_and_told(tmp_path: Path) -> None:
    partition = partition_in(tmp_path)
    observer = Noting()
    partition.observers[observer] = None
    append(partition, produced(2))
    partition.change_replicas(
        leader_epoch=LeaderEpoch(6), partition_epoch=1, replicas=(LEADER,), in_sync=(LEADER,)
    )
    assert observer.told[-1] == "ended"
    assert partition.check_leader_epoch(4) == ErrorCode.FENCED_LEADER_EPOCH
    end = partition.log.end_of_epoch(LeaderEpoch(4))
    assert end is not None
    assert end.end_offset == 2


def test_an_open_transaction_of_a_foreign_log_holds_back_the_last_stable_offset(
    tmp_path: Path,
) -> None:
    partition = partition_in(tmp_path)
    append(partition, produced(2))
    data = produced(3, producer_id=9, epoch=0, sequence=0, transactional=True)
    batch = BatchView(data)
    batch.assign(base_offset=Offset(2), leader_epoch=LeaderEpoch(4))
    partition.append_numbered([batch], now_ms=NOW_MS)
    append(partition, produced())
    assert partition.high_watermark == 6
    assert partition.last_stable_offset == 2
    committed = partition.read(2, size_bytes_max=999, oversized_first=True, committed_only=True)
    assert committed is None
