"""What a power loss leaves of a replica's log: changes from the oldest on, the last one torn."""

from penstock.model.offset import LeaderEpoch, Offset
from penstock.sim.quorum.disk import LogEntry, ReplicaDisk


def entries(epoch: int, *values: int) -> tuple[LogEntry, ...]:
    return tuple(LogEntry(LeaderEpoch(epoch), value) for value in values)


def changed_disk() -> ReplicaDisk:
    """Two synced records; then one is cut off, and three others follow, not synced."""
    disk = ReplicaDisk(b"")
    disk.append(entries(1, 10, 11))
    disk.sync(disk.changes)
    disk.truncate(Offset(1))
    disk.append(entries(2, 20, 21, 22))
    return disk


def test_synced_records_survive() -> None:
    disk = changed_disk()
    disk.crash(kept=0, torn=0)
    assert disk.entries == list(entries(1, 10, 11))


def test_truncation_may_survive_without_the_records_that_followed() -> None:
    disk = changed_disk()
    disk.crash(kept=1, torn=0)
    assert disk.entries == list(entries(1, 10))


def test_part_of_the_last_append_may_survive() -> None:
    disk = changed_disk()
    disk.crash(kept=1, torn=2)
    assert disk.entries == [*entries(1, 10), *entries(2, 20, 21)]


def test_records_after_a_lost_truncation_are_lost_too() -> None:
    disk = changed_disk()
    disk.crash(kept=0, torn=2)
    assert disk.entries == list(entries(1, 10, 11))


def test_kill_loses_nothing_and_the_log_is_not_known_to_be_synced() -> None:
    ends = changed_disk().log_ends()
    assert (ends.end_offset, ends.is_synced) == (4, False)
