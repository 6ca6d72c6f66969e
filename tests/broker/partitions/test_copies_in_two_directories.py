"""A partition that was made anew while one of its directories was offline lies in two of them: the
node starts, one copy stays, and the other is set aside.
"""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.log.checkpoint import DirectoryIdentity
from penstock.log.directory import write_identity
from penstock.metadata.image.topic import UNASSIGNED_DIRECTORY
from penstock.world.real import real_world
from rig.data_requests import produce
from rig.produced import produced
from rig.services import NODE, Broker

TWO = ("a", "b")
IDS = {"a": b"a" * 16, "b": b"b" * 16}


def format_both(path: Path) -> None:
    disk = real_world(inline=True).disk
    for name, directory_id in IDS.items():
        owner = DirectoryIdentity(cluster_id="c", node_id=NODE, directory_id=directory_id)
        write_identity(disk, str(path / name), owner)


def write_log(path: Path, home: str, *, records: int, leader_epoch: int = 0) -> None:
    """Partition 0 of the first topic with so many records, in this directory alone."""
    broker = Broker(path / "elsewhere")
    broker.create_topic("t", leader_epoch=leader_epoch)
    produce(broker, "t", produced(records))
    broker.close()
    shutil.move(path / "elsewhere" / "data" / "t-0", path / home / "t-0")
    shutil.rmtree(path / "elsewhere")


def start(path: Path, directory_id: bytes) -> Broker:
    broker = Broker(path, directories=TWO)
    made = Broker(path / "model")
    made.create_topic("t")
    topic = made.services.image.topics_by_name["t"]
    made.close()
    partition = replace(topic.partitions[0], directories=(directory_id,))
    broker.change_topic(replace(topic, partitions=(partition,)))
    return broker


def names(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir() if one.name.startswith("t-0"))


@pytest.mark.parametrize("home, other", [("a", "b"), ("b", "a")])
def test_the_copy_in_the_assigned_directory_stays(tmp_path: Path, home: str, other: str) -> None:
    format_both(tmp_path)
    write_log(tmp_path, home, records=2)
    write_log(tmp_path, other, records=5)
    broker = start(tmp_path, IDS[home])
    assert broker.partition("t").log.directory == str(tmp_path / home / "t-0")
    assert broker.partition("t").log.end_offset == 2
    assert names(tmp_path / home) == ["t-0"]
    (set_aside,) = names(tmp_path / other)
    assert set_aside.endswith("-stray")
    broker.close()
    again = start(tmp_path, IDS[home])
    assert again.partition("t").log.end_offset == 2
    again.close()


@pytest.mark.parametrize("home, other", [("a", "b"), ("b", "a")])
def test_a_copy_of_another_topic_is_set_aside(tmp_path: Path, home: str, other: str) -> None:
    """The topic was deleted and made again while a directory was offline."""
    format_both(tmp_path)
    write_log(tmp_path, home, records=2)
    write_log(tmp_path, other, records=5)
    deleted = tmp_path / other / "t-0" / "partition.metadata"
    deleted.write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n")
    broker = start(tmp_path, UNASSIGNED_DIRECTORY)
    assert broker.partition("t").log.directory == str(tmp_path / home / "t-0")
    assert [name.endswith("-stray") for name in names(tmp_path / other)] == [True]
    broker.close()


@pytest.mark.parametrize("home, other", [("a", "b"), ("b", "a")])
def test_without_an_assigned_directory_the_latest_epoch_counts(
    tmp_path: Path, home: str, other: str
) -> None:
    format_both(tmp_path)
    write_log(tmp_path, home, records=2, leader_epoch=7)
    write_log(tmp_path, other, records=5, leader_epoch=3)
    broker = Broker(tmp_path, directories=TWO)
    broker.create_topic("t", leader_epoch=8)
    assert broker.partition("t").log.end_offset == 2
    assert names(tmp_path / home) == ["t-0"]
    broker.close()


def test_copies_that_are_not_held_here_any_more_do_not_stop_the_start(tmp_path: Path) -> None:
    format_both(tmp_path)
    for home in TWO:
        write_log(tmp_path, home, records=2)
    broker = Broker(tmp_path, directories=TWO)
    broker.create_topic("t", leader=None, replicas=())
    assert "t-0" not in names(tmp_path / "a") + names(tmp_path / "b")
    broker.close()


def test_a_start_that_finds_two_copies_is_not_clean(tmp_path: Path) -> None:
    """Nobody knows what the copy that comes back lacks."""
    format_both(tmp_path)
    Broker(tmp_path, directories=TWO).close()
    sound = Broker(tmp_path, directories=TWO)
    assert sound.directories.clean_epoch == 1
    sound.close()
    for home in TWO:
        write_log(tmp_path, home, records=2)
    doubtful = Broker(tmp_path, directories=TWO)
    asyncio.run(doubtful.directories.recover(now_ms=0))
    assert doubtful.directories.clean_epoch is None
    doubtful.directories.abandon()
