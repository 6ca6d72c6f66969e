"""The disk of a replica keeps what it must when power is lost, and nothing else for certain."""

from random import Random

import pytest

from penstock.sim.replication.disk import ReplicaDisk
from penstock.world.errors import DiskError


@pytest.mark.parametrize("seed", range(20))
def test_power_loss_keeps_what_was_synced(seed: int) -> None:
    chance = Random(seed)
    disk = ReplicaDisk(0)
    disk.make_directory("/t-0")
    file = disk.open("/t-0/log", create=True)
    file.append([b"synced"])
    file.sync()
    file.append([b" and not"])
    disk.lose_power(lambda bound: chance.randrange(bound))
    left = disk.read("/t-0/log")
    assert b"synced and not".startswith(left)
    assert left.startswith(b"synced")
    assert disk.lost_power


@pytest.mark.parametrize("seed", range(20))
def test_a_file_that_was_cut_is_the_old_one_or_the_new_one(seed: int) -> None:
    chance = Random(seed)
    disk = ReplicaDisk(0)
    disk.make_directory("/t-0")
    file = disk.open("/t-0/log", create=True)
    file.append([b"before"])
    file.sync()
    file.truncate(2)
    file.append([b"after"])
    disk.lose_power(lambda bound: chance.randrange(bound))
    assert disk.read("/t-0/log") in (b"before", b"beafter")


def test_names_are_those_of_the_directory() -> None:
    disk = ReplicaDisk(0)
    disk.make_directory("/t-0")
    disk.write_whole("/t-0/a", b"1")
    disk.write_whole("/t-0/b", b"2")
    disk.rename("/t-0/a", "/t-0/c")
    disk.remove("/t-0/b")
    assert disk.names("/t-0") == ["c"]
    with pytest.raises(DiskError):
        disk.open("/t-0/a")
