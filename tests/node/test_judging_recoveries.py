"""A node that was killed in the middle of its recovery is told from one that was not."""

import signal
from pathlib import Path

import pytest

from rig.failover.cluster import KafkaSoftware, PenstockSoftware
from rig.failover.recoveries import RECOVERY_POINTS, Recovery, unscanned
from rig.served_cluster import NodeProcess

OVER = "recovery segments_scanned=3 clean=False"
# A node that starts; its segment is $1.
SCANS = 'exec 3<"$1"; exec tail -f /dev/null'
HAS_SCANNED = f'exec 3<"$1"; echo {OVER}; exec tail -f /dev/null'
SCANS_NOTHING = f"echo {OVER}; exec tail -f /dev/null"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of a partition with three segments, and an empty one that was just begun."""
    made = tmp_path / "data" / "ledger-2"
    made.mkdir(parents=True)
    for base_offset in (0, 10, 20):
        (made / f"{base_offset:020}.log").write_bytes(b"records")
    (made / f"{30:020}.log").touch()
    return made


def checkpoint(directory: Path, *lines: str) -> None:
    (directory.parent / RECOVERY_POINTS).write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def unscanned_offsets(directory: Path) -> list[int]:
    return [int(segment.stem) for segment in unscanned(directory)]


def is_middle(directory: Path, script: str, *, logged_before: str = "") -> bool:
    """Whether a node that is killed is taken to have been in the middle of its recovery."""
    [segment, *_] = unscanned(directory)
    log = directory.parent.parent / "server.log"
    log.write_text(logged_before)
    node = NodeProcess("node", ["sh", "-c", script, "node", str(segment)], log)
    recovery = Recovery(node, PenstockSoftware(), segment)
    node.begin()
    try:
        has_begun = recovery.until_begun()
        if script is HAS_SCANNED:
            node.until_logged(OVER)
    finally:
        node.end(signal.SIGKILL)
    return has_begun and not recovery.is_over()


def test_without_a_checkpoint_all_is_scanned(directory: Path) -> None:
    assert unscanned_offsets(directory) == [0, 10, 20]
    checkpoint(directory, "ledger 1 20", "a-ledger 2 30")
    assert unscanned_offsets(directory) == [0, 10, 20]


def test_what_is_below_the_recovery_point_is_not_scanned(directory: Path) -> None:
    checkpoint(directory, "ledger 1 30", "ledger 2 10")
    assert unscanned_offsets(directory) == [10, 20]


def test_the_middle_of_a_recovery_is_seen(directory: Path) -> None:
    assert is_middle(directory, SCANS)


def test_a_recovery_that_is_done_is_not_its_middle(directory: Path) -> None:
    assert not is_middle(directory, HAS_SCANNED)


def test_a_recovery_that_was_not_seen_to_scan_is_not_its_middle(directory: Path) -> None:
    assert not is_middle(directory, SCANS_NOTHING)


def test_what_an_earlier_start_has_logged_is_not_of_this_one(directory: Path) -> None:
    assert is_middle(directory, SCANS, logged_before=f"{OVER}\n")


def test_a_node_that_ends_as_it_recovers_is_told(directory: Path) -> None:
    with pytest.raises(AssertionError, match="ended as it recovered"):
        is_middle(directory, "exit 1")


def test_apache_kafka_logs_which_segment_it_scans(directory: Path, tmp_path: Path) -> None:
    software, node = KafkaSoftware(tmp_path), NodeProcess("node", [], tmp_path / "server.log")
    segment = unscanned(directory)[1]
    place = f"INFO [LogLoader partition=ledger-2, dir={directory.parent}]"
    first = f"{place} Recovering unflushed segment 0. 0 recovered for ledger-2."
    second = f"{place} Recovering unflushed segment 10. 0 recovered for ledger-2."
    assert not software.has_begun_to_scan(segment, node, logged=first)
    assert software.has_begun_to_scan(segment, node, logged=f"{first}\n{second}")
    assert not software.recovered.search("INFO Loading logs from log dirs [/data] (LogManager)")
    assert software.recovered.search("INFO Loaded 8 logs in 120ms (LogManager)")
