"""A log that cannot be opened because of I/O errors: its directory has failed if it takes no
writes; if it does, the log is unreadable, and treated as one that is damaged.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.broker.partitions.log_directories import DirectoryLost
from penstock.metadata.image.image import Delta
from penstock.metadata.image.topic import LOST_DIRECTORY, TopicImage
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import LeaderEpoch
from penstock.replication.follower import Follower
from penstock.replication.partition import Partition
from penstock.world.errors import DiskError
from rig.data_requests import produce
from rig.memory_disk import MemoryDisk, MemoryFile
from rig.produced import produced
from rig.services import NODE, OTHER, Broker

TWO = ("a", "b")
SEGMENT = "00000000000000000000.log"
NAME = TopicPartition("t", 0)


class BrokenDisk(MemoryDisk):
    """Files whose path begins as one in `unreadable` cannot be opened, and below one in `read_only`
    nothing is made.
    """

    unreadable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> MemoryFile:
        if path.startswith(self.unreadable):
            raise DiskError(path, "Input/output error")
        if create:
            self._refuse(path)
        return super().open(path, create=create, writable=writable)

    def make_directory(self, path: str) -> None:
        self._refuse(path)
        super().make_directory(path)

    def _refuse(self, path: str) -> None:
        if path.startswith(self.read_only):
            raise DiskError(path, "Read-only file system")


def started(disk: MemoryDisk, directories: tuple[str, ...] = TWO) -> Broker:
    """A broker that has no topics."""
    broker = Broker(Path("/"), disk=disk, directories=directories)
    broker._apply(Delta())
    return broker


def restarted(before: Broker, disk: MemoryDisk, directories: tuple[str, ...] = TWO) -> Broker:
    """The next process of a broker, which learns of its topics at once."""
    before.close()
    image = before.services.image
    broker = Broker(Path("/"), disk=disk, directories=directories)
    broker.services.image = image
    broker._apply(Delta(topics_created=tuple(image.topics_by_name.values())))
    return broker


def homes(broker: Broker, topic: str, count: int) -> list[str | None]:
    return [broker.directories.home_of(TopicPartition(topic, index)) for index in range(count)]


def topic_of(broker: Broker) -> TopicImage:
    return broker.services.image.topics_by_name["t"]


@pytest.mark.parametrize(
    "broken",
    ["/b/", "/b/t-", "/b/t-1/partition", "/b/t-1/0"],
    ids=["the whole directory", "directories", "claims", "segments"],
)
def test_a_directory_in_which_no_log_can_be_made_has_failed(broken: str) -> None:
    """What is new is made in another one, and is told to be there."""
    disk = BrokenDisk()
    broker = started(disk)
    disk.read_only = (broken,)
    broker.create_topic("t", 2, replicas=(NODE, OTHER))
    assert broker.directories.failed == {"/b": "Read-only file system"}
    assert homes(broker, "t", 2) == ["/a", "/a"]
    for index in (0, 1):
        assert produce(broker, "t", produced(3), index=index).base_offset == 0
        assert broker.assignments.wanted_of(TopicPartition("t", index)) == b"a" * 16
    assert len(broker.applied.led) == 2


def test_what_was_in_the_directory_fails_with_it_and_is_not_made_anew() -> None:
    disk = BrokenDisk()
    broker = started(disk)
    broker.create_topic("t", 2, replicas=(NODE, OTHER))
    lost = homes(broker, "t", 2).index("/b")
    disk.read_only = ("/b/",)
    broker.create_topic("u", 2)
    assert broker.partitions.find("t", lost) is ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(broker.partitions.find("t", 1 - lost), Partition)
    assert broker.assignments.wanted_of(TopicPartition("t", lost)) == b"b" * 16
    assert homes(broker, "u", 2) == ["/a", "/a"]


def test_a_replica_that_was_to_lead_by_the_same_change_is_not_led() -> None:
    """Its directory fails between the two."""
    disk = BrokenDisk()
    broker = started(disk)
    broker.create_topic("t", 2, leader=OTHER, replicas=(NODE, OTHER))
    lost = homes(broker, "t", 2).index("/b")
    disk.read_only = ("/b/",)
    led = [
        replace(one, leader=NODE, leader_epoch=LeaderEpoch(1))
        for one in topic_of(broker).partitions
    ]
    new = (replace(led[0], directories=()),) * 2
    broker.change_topic(replace(topic_of(broker), partitions=(*led, *new)))
    assert [one.name.partition for one in broker.applied.led] == [1 - lost, 2, 3]
    assert broker.partitions.find("t", lost) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("directories", [("only",), TWO])
def test_a_node_ends_that_cannot_make_logs_beside_its_metadata(
    directories: tuple[str, ...],
) -> None:
    disk = BrokenDisk()
    broker = started(disk, directories)
    disk.read_only = (f"/{directories[0]}/",)
    with pytest.raises(DirectoryLost):
        broker.create_topic("t")


def test_a_start_goes_on_without_a_directory_that_takes_no_writes() -> None:
    """Where nothing else says so, the controller is told that the replica is in the failed one."""
    disk = BrokenDisk()
    before = started(disk)
    before.create_topic("t", 2, replicas=(NODE, OTHER))
    lost = homes(before, "t", 2).index("/b")
    disk.unreadable = (f"/b/t-{lost}/0", f"/b/t-{lost}/penstock-damaged")
    broker = restarted(before, disk)
    assert list(broker.directories.failed) == ["/b"]
    assert isinstance(broker.partitions.find("t", 1 - lost), Partition)
    assert broker.partitions.find("t", lost) is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.assignments.wanted_of(TopicPartition("t", lost)) == b"b" * 16


def unreadable() -> tuple[Broker, BrokenDisk]:
    """A broker with one directory and two logs, of which it cannot read the one of t-0."""
    disk = BrokenDisk()
    before = started(disk, ("data",))
    before.create_topic("t", replicas=(NODE, OTHER))
    before.create_topic("u")
    produce(before, "t", produced(3))
    disk.unreadable = (f"/data/t-0/{SEGMENT}",)
    return restarted(before, disk, ("data",)), disk


def test_an_unreadable_log_is_told_to_be_lost_and_the_others_are_served() -> None:
    broker, _ = unreadable()
    assert broker.directories.failed == {}
    assert isinstance(broker.partitions.find("u", 0), Partition)
    assert broker.partitions.find("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.partitions.is_damaged(NAME)
    assert broker.assignments.wanted_of(NAME) == LOST_DIRECTORY


def test_an_unreadable_log_is_copied_anew_once_others_lead() -> None:
    broker, disk = unreadable()
    [partition] = topic_of(broker).partitions
    led = replace(
        partition,
        leader=OTHER,
        leader_epoch=LeaderEpoch(1),
        isr=(OTHER,),
        directories=(LOST_DIRECTORY, b"o" * 16),
    )
    disk.unreadable = ("/data/t-0.",)  # the bad sectors have another name then
    broker.change_topic(replace(topic_of(broker), partitions=(led,)))
    follower = broker.partitions.replica(NAME)
    assert isinstance(follower, Follower)
    assert follower.log.end_offset == 0
    assert [name for name in disk.names("/data") if name.endswith("-stray")]


def test_a_log_that_can_be_read_again_is_served_with_all_it_had() -> None:
    broker, disk = unreadable()
    assert "penstock-damaged" in disk.names("/data/t-0")
    disk.unreadable = ()
    [partition] = topic_of(broker).partitions
    broker.change_topic(
        replace(topic_of(broker), partitions=(replace(partition, partition_epoch=1),))
    )
    assert broker.partition("t").log.end_offset == 3
    assert broker.assignments.wanted_of(NAME) == b"data" * 4
    assert "penstock-damaged" not in disk.names("/data/t-0")
