"""Many partitions made, deleted or moved in one step cost a handful of syncs."""

import random

from penstock.log.directory import LogDirectory, LogWanted
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from rig.logs import NOW_MS, SMALL, TOPIC_ID, append
from rig.memory_disk import MemoryDisk, MemoryFile

COUNT = 50
PARTITIONS = [TopicPartition("orders", index) for index in range(COUNT)]
WANTED = [LogWanted(partition=one, topic_id=TOPIC_ID, settings=SMALL) for one in PARTITIONS]


class CountingDisk(MemoryDisk):
    """Counts what would wait for the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> MemoryFile:
        return CountingFile(super().open(path, create=create, writable=writable), self)

    def sync_directory(self, path: str) -> None:
        self.syncs += 1
        super().sync_directory(path)


class CountingFile(MemoryFile):
    def __init__(self, file: MemoryFile, disk: CountingDisk) -> None:
        super().__init__(disk, file.path, disk.files[file.path])
        self._counting = disk

    def sync(self) -> None:
        self._counting.syncs += 1
        super().sync()


def test_making_deleting_and_moving_many_takes_few_syncs() -> None:
    disk = CountingDisk()
    directory = LogDirectory.open(disk=disk, path="/data")
    disk.syncs = 0
    opened = directory.open_logs(WANTED, now_ms=NOW_MS)
    assert disk.syncs <= 3
    for log in opened.values():
        assert isinstance(log, PartitionLog)
        append(log, 3)
    disk.syncs = 0
    directory.advance_starts(dict.fromkeys(PARTITIONS, Offset(2)))
    assert disk.syncs <= 2
    assert {log.start_offset for log in directory.logs.values()} == {2}
    disk.syncs = 0
    assert directory.delete_partitions(dict.fromkeys(PARTITIONS, TOPIC_ID)) == {}
    assert disk.syncs <= 1
    assert directory.logs == {}


def test_new_directories_are_still_the_topics_after_a_power_loss() -> None:
    disk = MemoryDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    LogDirectory.open(disk=disk, path="/data").open_logs(WANTED, now_ms=NOW_MS)
    for seed in range(20):
        left = disk.after_power_loss(random.Random(seed))
        again = LogDirectory.open(disk=left, path="/data")
        assert again.partitions_found() == dict.fromkeys(PARTITIONS, TOPIC_ID)
        # And after another one, now that the list of claims is gone.
        once_more = left.after_power_loss(random.Random(seed))
        found = LogDirectory.open(disk=once_more, path="/data").partitions_found()
        assert found == dict.fromkeys(PARTITIONS, TOPIC_ID)


def test_list_of_claims_that_a_crash_cut_short_is_read_up_to_there() -> None:
    disk = MemoryDisk()
    LogDirectory.open(disk=disk, path="/data").open_logs(WANTED, now_ms=NOW_MS)
    listed = disk.files["/data/unsynced-topic-ids"].data
    del listed[-5:]
    for partition in PARTITIONS:
        disk.files[f"/data/orders-{partition.partition}/partition.metadata"].data.clear()
    found = LogDirectory.open(disk=disk, path="/data").partitions_found()
    assert found == {**dict.fromkeys(PARTITIONS, TOPIC_ID), PARTITIONS[-1]: None}
