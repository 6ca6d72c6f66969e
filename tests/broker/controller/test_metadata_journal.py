"""The metadata log as other nodes will use it: copied, cut back, and replaced by a snapshot."""

from functools import partial

import pytest

from penstock.broker.controller import metadata_journal
from penstock.broker.controller.metadata_journal import MetadataJournal
from penstock.log.metadata_snapshots import DamagedSnapshot, SnapshotWriter
from penstock.log.opening import open_log
from penstock.log.partition_log import PartitionLog
from penstock.metadata.framing import batched
from penstock.metadata.records import MetadataRecord, UnreadableMetadata, encode_record
from penstock.model.identity import METADATA_TOPIC, METADATA_TOPIC_ID, NodeId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.model.settings.topic import TopicSettings
from penstock.raft.effects import HardState
from penstock.raft.voters import ReplicaKey, VoterSet
from penstock.records.batch import BatchView
from penstock.records.errors import CorruptBatch
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord
from penstock.world.clock import RealClock
from rig.memory_disk import MemoryDisk

NODE = NodeId(1)
SOLE = VoterSet([ReplicaKey(NODE, None)])
SEVERAL = VoterSet([ReplicaKey(NODE, None), ReplicaKey(NodeId(2), None)])
DIRECTORY = "/data/__cluster_metadata-0"


class Journalled:
    """A journal on a disk of its own."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.disk.make_directory(DIRECTORY)
        self.log: PartitionLog = open_log(
            disk=self.disk,
            directory=DIRECTORY,
            partition=TopicPartition(METADATA_TOPIC, 0),
            topic_id=METADATA_TOPIC_ID,
            settings=TopicSettings(),
            now_ms=0,
        )
        self.journal = MetadataJournal(
            log=self.log, disk=self.disk, clock=RealClock(), node_id=NODE, voters=SOLE
        )

    def lead(self, epoch: int, *levels: int) -> None:
        self.journal.append_leader_change(LeaderEpoch(epoch), [NODE], SOLE)
        for level in levels:
            self.journal.append([feature(level)])
        self.journal.sync()
        self.journal.synced(self.journal.end_offset)

    def levels(self) -> list[int]:
        recovered = self.journal.recover()
        records = [
            *recovered.records,
            *(one for e in self.journal.tail for one in e.records),
        ]
        return [one.feature_level for one in records if isinstance(one, FeatureLevelRecord)]


def feature(level: int) -> MetadataRecord:
    return FeatureLevelRecord(name="metadata.version", feature_level=level)


def copied(batch: BatchView) -> BatchView:
    return BatchView(memoryview(bytearray(batch.view)))


def test_a_log_is_copied_batch_by_batch() -> None:
    here, there = Journalled(), Journalled()
    here.lead(1, 10, 11)
    here.lead(4, 12)
    there.journal.append_fetched([copied(one) for one in here.log.batches_from(Offset(0))])
    assert there.levels() == [10, 11, 12]
    assert there.journal.last_epoch == 4
    assert there.log.epochs.entries == here.log.epochs.entries
    here.lead(5, 13)
    there.journal.append_fetched(
        [copied(one) for one in here.log.batches_from(there.journal.end_offset)]
    )
    assert there.levels() == [10, 11, 12, 13]


def test_batches_that_do_not_follow_the_log_are_refused() -> None:
    here, there = Journalled(), Journalled()
    here.lead(3, 10, 11, 12)
    batches = [copied(one) for one in here.log.batches_from(Offset(0))]
    damaged = copied(batches[1])
    damaged.view[-1] ^= 1
    older = copied(batches[1])
    older.assign(base_offset=older.base_offset, leader_epoch=LeaderEpoch(2))
    for wrong in (
        batches[1:],
        [batches[0], batches[2]],
        [batches[0], damaged],
        [batches[0], older],
    ):
        with pytest.raises(CorruptBatch):
            there.journal.append_fetched(wrong)
        assert there.journal.end_offset == 0, "all or none"
    there.journal.append_fetched(batches)
    assert there.levels() == [10, 11, 12]


def test_a_log_that_another_leader_contradicts_is_cut_back() -> None:
    one = Journalled()
    one.lead(1, 10)
    end_offset = one.journal.end_offset
    one.lead(2, 11, 12)
    one.journal.truncate(end_offset)
    assert one.levels() == [10]
    assert one.journal.last_epoch == 1
    one.lead(3, 13)
    assert one.levels() == [10, 13]


def test_a_frame_is_cut_back_and_committed_by_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its beginning stays in the tail until an image shows the whole of it: a controller that is
    elected in between must know that it is open.
    """
    monkeypatch.setattr(metadata_journal, "batched", partial(batched, records_max=2))
    one = Journalled()
    one.lead(1)
    one.journal.append([feature(level) for level in range(10, 15)])
    ends = [entry.next_offset for entry in one.journal.tail]
    assert len(ends) > 3
    one.journal.truncate(ends[2])
    assert [entry.next_offset for entry in one.journal.tail] == ends[:3]
    assert len(one.journal.committed(ends[1])) == 2
    assert [entry.next_offset for entry in one.journal.tail] == ends[:3], "none is in an image"
    one.journal.in_image(ends[0])
    assert [entry.next_offset for entry in one.journal.tail] == ends[1:3]
    assert [entry.next_offset for entry in one.journal.committed(ends[2])] == [ends[2]]


def test_epochs_of_a_log_without_their_file_are_read_from_it() -> None:
    one = Journalled()
    one.lead(1, 10, 11)
    one.lead(4, 12)
    epochs, end_offset = one.log.epochs.entries, one.journal.end_offset
    one.log.close()
    one.disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    one = Journalled(one.disk)
    one.journal.recover()
    assert one.log.epochs.entries == epochs
    ends = one.journal.ends()
    assert ends.last == (4, end_offset)


def test_a_vote_that_may_be_forgotten_is_not_taken_for_none() -> None:
    """A single voter of an older version has no quorum-state; one of several has lost it."""
    one = Journalled()
    one.lead(3, 10)
    assert one.journal.hard_state() == HardState(epoch=LeaderEpoch(3), leader_id=None, voted=None)
    several = MetadataJournal(
        log=one.log, disk=one.disk, clock=RealClock(), node_id=NODE, voters=SEVERAL
    )
    with pytest.raises(UnreadableMetadata, match="may have voted, and has forgotten it"):
        several.hard_state()


def test_an_epoch_of_the_past_cannot_be_led() -> None:
    one = Journalled()
    one.lead(2, 10)
    with pytest.raises(AssertionError):
        one.journal.append_leader_change(LeaderEpoch(2), [NODE], SOLE)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_snapshot_that_was_received_takes_the_place_of_the_log(restarted: bool) -> None:
    one = Journalled()
    one.lead(1, 10, 11)
    snapshot_id = SnapshotId(Offset(100), LeaderEpoch(7))
    part = one.journal.snapshots.begin(snapshot_id)
    writer = SnapshotWriter(part, timestamp_ms=0)
    writer.append([encode_record(feature(20))])
    with pytest.raises(DamagedSnapshot):
        one.journal.install(part)
    assert one.levels() == [10, 11], "a part changes nothing"
    writer.finish()
    one.journal.install(part)
    if restarted:
        one.log.close()
        one = Journalled(one.disk)
        one.journal.recover()
    assert one.levels() == [20]
    assert one.log.start_offset == one.log.end_offset == 100
    assert [(entry.epoch, entry.start_offset) for entry in one.log.epochs.entries] == [(7, 100)]
    assert one.journal.last_epoch == 7
    one.lead(8, 21)
    assert one.levels() == [20, 21]


def test_a_crash_before_the_log_is_replaced_is_made_up_for_at_the_next_start() -> None:
    one = Journalled()
    one.lead(1, 10, 11)
    part = one.journal.snapshots.begin(SnapshotId(Offset(3), LeaderEpoch(7)))
    writer = SnapshotWriter(part, timestamp_ms=0)
    writer.append([encode_record(feature(20))])
    writer.finish()
    part.file.sync()
    one.journal.snapshots.publish(part)  # and here it crashes, before the log is emptied
    one = Journalled(one.disk.after_kill())
    assert one.levels() == [20], "the log has the same offsets, of an older epoch"
    assert one.log.start_offset == 3
