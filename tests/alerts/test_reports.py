"""What leaves a node can be read again, and what is no report is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alerts.growth import Growth
from penstock.alerts.machine import State, Transition
from penstock.alerts.report import Report, read_report, report_of
from penstock.alerts.rules import DISK_FILLING, OFFLINE_PARTITIONS
from penstock.model.identity import NodeId


def report(subject: str = "", value: float | None = 0.9) -> Report:
    told = Transition(rule=DISK_FILLING, subject=subject, state=State.FIRING, value=value)
    return report_of(told, node_id=NodeId(3), is_broker=True, now_ms=1_700)


@given(st.text(), st.none() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_report_is_read_as_it_was_written(subject: str, value: float | None) -> None:
    written = report(subject, value)
    assert read_report(written.body) == written
    assert written.body.isascii()


def test_a_key_names_node_alert_and_subject() -> None:
    assert report("/data").key == b"3/PenstockDiskFilling//data"
    assert report("\udcff").key == b"3/PenstockDiskFilling/\\udcff"


def test_an_alert_of_the_cluster_has_one_key_whoever_tells_it() -> None:
    told = Transition(rule=OFFLINE_PARTITIONS, subject="", state=State.CLEARED, value=0)
    keys = {report_of(told, node_id=NodeId(one), is_broker=True, now_ms=1).key for one in range(3)}
    assert keys == {b"cluster/PenstockOfflinePartitions/"}


@pytest.mark.parametrize(
    "value",
    [None, b"", b"\xff", b"[]", b"{}", b"1", b"[" * 100_000, b'{"alert": 1}'],
)
def test_what_is_no_report_is_none(value: bytes | None) -> None:
    assert read_report(value) is None


@given(st.sampled_from(sorted(report().value_for_json())), st.sampled_from([[], {}, True, "x"]))
def test_a_field_of_another_kind_makes_it_no_report_or_leaves_it_one(
    name: str, other: object
) -> None:
    changed = {**report().value_for_json(), name: other}
    found = read_report(json.dumps(changed).encode())
    assert found is None or name in ("id", "is_broker") or other == "x"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("value", 10**400),
        ("threshold", 10**400),
        ("value", float("nan")),
        ("value", float("inf")),
        ("at_ms", 10**30),
        ("at_ms", -(10**18)),
        ("node", 10**30),
    ],
)
def test_a_number_that_cannot_be_shown_makes_it_no_report(name: str, number: float) -> None:
    changed = {**report().value_for_json(), name: number}
    assert read_report(json.dumps(changed).encode()) is None


def test_growth_is_counted_from_the_second_look_on() -> None:
    growth: Growth[str] = Growth()
    assert growth.look({"a": 100}, now_ms=5_000) == ({}, 0.0)
    assert growth.look({"a": 130, "new": 900}, now_ms=7_000) == ({"a": 30}, 2.0)
    assert growth.look({"a": 10, "new": 901}, now_ms=8_000) == ({"a": 0, "new": 1}, 1.0)


def test_a_place_that_has_begun_since_the_last_look_has_grown_by_all_that_it_holds() -> None:
    growth: Growth[str] = Growth()
    assert growth.look({"a": 7}, begun={"a"}, now_ms=5_000) == ({}, 0.0)
    grown = growth.look({"a": 3, "new": 2}, begun={"a", "new"}, now_ms=6_000)
    assert grown == ({"a": 3, "new": 2}, 1.0)
