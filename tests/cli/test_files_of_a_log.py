"""`penstock storage` and `penstock log dump`, on what a broker left behind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import running_broker

Run = Callable[..., Any]


@pytest.fixture
def data(run: Run, tmp_path: Path) -> Path:
    """The directory of a node that had a topic `t` with three records in one batch."""
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\nthree\n")
    with running_broker(data=tmp_path / "data") as broker:
        broker.topic("t")
        assert run(f"produce t {lines}", bootstrap=broker.bootstrap).status == 0
    return tmp_path / "data" / "node-1"


def first_segment(data: Path) -> Path:
    return data / "t-0" / f"{0:020d}.log"


def test_segment_is_shown_by_batch(run: Run, data: Path) -> None:
    dumped = run(f"log dump {first_segment(data)} --json").json()
    (batch,) = dumped["rows"]
    assert dumped["error"] is None
    assert (batch["base offset"], batch["last offset"], batch["records"]) == (0, 2, 3)
    assert batch["checksum"] == "right"
    assert "base offset" in run(f"log dump {first_segment(data)}").text


def test_segment_is_shown_by_record(run: Run, data: Path) -> None:
    rows = run(f"log dump --records {first_segment(data)} --json").json()["rows"]
    assert [(row["offset"], row["value"]) for row in rows] == [(0, "one"), (1, "two"), (2, "three")]


def test_metadata_records_are_named(run: Run, data: Path) -> None:
    segment = data / "__cluster_metadata-0" / f"{0:020d}.log"
    text = run(f"log dump --records {segment}").text
    assert "TopicRecord(name='t'" in text
    assert "leader_change" in text


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"t-0/{0:020d}.index", "offset index"),
        (f"t-0/{0:020d}.timeindex", "time index"),
        (f"t-0/{3:020d}.snapshot", "producers"),
        ("t-0/leader-epoch-checkpoint", "leader epochs"),
        ("t-0/partition.metadata", "partition metadata"),
        ("recovery-point-offset-checkpoint", "offsets by partition"),
        ("log-start-offset-checkpoint", "offsets by partition"),
        ("meta.properties", "directory identity"),
    ],
)
def test_every_file_can_be_read(run: Run, data: Path, name: str, kind: str) -> None:
    outcome = run(f"log dump {data / name} --json")
    assert outcome.status == 0, outcome.err
    assert outcome.json()["kind"] == kind


def test_wrong_checksum_is_told(run: Run, data: Path) -> None:
    segment = first_segment(data)
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    outcome = run(f"log dump {segment}")
    assert outcome.status == 1
    assert "WRONG" in outcome.text
    assert "wrong checksum of the batch at byte 0" in outcome.err


@pytest.mark.parametrize("name", [f"t-0/{0:020d}.log", f"t-0/{3:020d}.snapshot"])
def test_file_that_is_cut_off_is_told(run: Run, data: Path, name: str) -> None:
    path = data / name
    path.write_bytes(path.read_bytes()[:-1])
    outcome = run(f"log dump {path}")
    assert outcome.status == 1
    assert outcome.err.count("\n") == 1


def test_file_of_something_else_is_refused(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    outcome = run(f"log dump {other}")
    assert outcome.status == 1
    assert "no file of a log has this name" in outcome.err


def test_directory_is_formatted_once(run: Run, tmp_path: Path) -> None:
    command = f"storage format --data {tmp_path / 'new'} --node-id 3"
    identity = "AAAAAAAAAAAAAAAAAAAABQ"
    formatted = run(f"{command} --cluster-id {identity} --json").json()
    assert (formatted["cluster_id"], formatted["node_id"]) == (identity, 3)
    again = run(command)
    assert (again.status, "is formatted already" in again.err) == (1, True)
    assert run(f"{command} --ignore-formatted").status == 0
    (described,) = run(f"storage info --data {tmp_path / 'new'} --json").json()
    assert described["cluster_id"] == identity
    assert run(f"storage format --data {tmp_path / 'x'} --cluster-id short").status == 1


def test_stored_partitions_are_listed(run: Run, data: Path) -> None:
    (described,) = run(f"storage info --data {data.parent} --json").json()
    stored = {partition["partition"]: partition for partition in described["partitions"]}
    assert stored["t-0"]["recovery_point"] == 3
    assert stored["t-0"]["size_bytes"] == first_segment(data).stat().st_size
    assert "t-0" in run(f"storage info --data {data.parent}").text


def test_directory_without_a_node_is_told(run: Run, tmp_path: Path) -> None:
    assert run(f"storage info --data {tmp_path}").status == 1
    assert run(f"storage info --data {tmp_path / 'nope'}").status == 1
