"""A node that is killed under load keeps every record it acked, once, and numbers without gaps."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.killing import RECORDS_A_ROUND, Load, kill_under_load, make_topic, stored
from rig.serve import ServedNode

# `make soak KILLS=50` has more.
KILLS = 4


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    served = ServedNode(data=tmp_path / "data")
    served.start()
    yield served
    if served.running:
        served.kill()


@pytest.mark.parametrize("fsync", ["true", "false"])
def test_every_acked_record_outlives_kills_and_stands_once(tmp_path: Path, fsync: str) -> None:
    node = ServedNode(data=tmp_path / "data", settings={"penstock.ack.fsync": fsync})
    node.start()
    try:
        report = kill_under_load(node, kills=KILLS)
    finally:
        if node.running:
            node.kill()
    assert report.faults == []
    assert report.acked == KILLS * RECORDS_A_ROUND


def test_a_clean_stop_loses_nothing_and_the_next_start_scans_no_segment(node: ServedNode) -> None:
    load = written(node)
    assert node.stop() == 0
    before = len(node.logged())
    node.start()
    assert "segments_scanned=0" in node.logged()[before:]
    assert stored(node.bootstrap) == load.acked


def test_a_start_after_a_kill_scans_what_was_not_closed(node: ServedNode) -> None:
    load = written(node)
    node.kill()
    before = len(node.logged())
    node.start()
    assert "segments_scanned=" in node.logged()[before:]
    assert "segments_scanned=0" not in node.logged()[before:]
    assert stored(node.bootstrap) == load.acked


def written(node: ServedNode) -> Load:
    make_topic(node)
    load = Load(node.bootstrap)
    load.allow(RECORDS_A_ROUND)
    load.await_acks(RECORDS_A_ROUND)
    load.finish()
    return load
