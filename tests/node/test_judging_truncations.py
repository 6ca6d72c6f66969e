"""A node that was killed in the middle of a truncation is told from one that was not."""

from pathlib import Path

import pytest

from rig.failover.truncations import Truncation
from rig.produced import produced

CUT_OFFSET = 1  # in the first of three segments, which have two records each
LEADER_EPOCH = 5


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for first in (0, 2, 4):
        write(tmp_path, first, first, first + 1)
    return tmp_path


def batch(offset: int, leader_epoch: int) -> bytes:
    whole = bytes(produced())
    return offset.to_bytes(8, "big") + whole[8:12] + leader_epoch.to_bytes(4, "big") + whole[16:]


def write(
    directory: Path, base_offset: int, *offsets: int, leader_epoch: int = LEADER_EPOCH
) -> None:
    batches = [batch(offset, leader_epoch) for offset in offsets]
    (directory / f"{base_offset:020}.log").write_bytes(b"".join(batches))


def retire(directory: Path, base_offset: int) -> None:
    segment = directory / f"{base_offset:020}.log"
    segment.rename(segment.with_suffix(".log.deleted"))


def is_seen(truncation: Truncation) -> tuple[bool, bool]:
    """Begun, and half done."""
    return truncation.until_begun(seconds_max=0.01), truncation.is_half_done(
        cut_offset=CUT_OFFSET, leader_epoch=LEADER_EPOCH
    )


def test_a_log_that_is_as_it_was_has_not_been_cut(directory: Path) -> None:
    assert is_seen(Truncation(directory)) == (False, False)


def test_the_middle_of_a_truncation_is_seen(directory: Path) -> None:
    truncation = Truncation(directory)
    retire(directory, 4)
    assert is_seen(truncation) == (True, True)
    retire(directory, 2)
    assert is_seen(truncation) == (True, True)  # the first segment has still to be cut


def test_a_truncation_that_is_done_is_not_its_middle(directory: Path) -> None:
    truncation = Truncation(directory)
    retire(directory, 4)
    retire(directory, 2)
    write(directory, 0, 0)
    assert is_seen(truncation) == (True, False)


def test_what_the_next_leader_has_written_is_not_left_to_be_cut(directory: Path) -> None:
    truncation = Truncation(directory)
    retire(directory, 4)
    retire(directory, 2)
    write(directory, 0, 0, 1, leader_epoch=LEADER_EPOCH + 1)
    assert is_seen(truncation) == (True, False)


def test_a_log_that_was_cut_in_its_last_segment_alone_was_not_killed_in_between(
    directory: Path,
) -> None:
    truncation = Truncation(directory)
    write(directory, 4, 4)
    assert is_seen(truncation) == (True, False)
