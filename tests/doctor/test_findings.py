"""A finding is as bad as its worst fault, and a command survives every name."""

import shlex
import subprocess

import pytest

from penstock.doctor.checklist import CHECKS, examine
from penstock.doctor.finding import (
    Advice,
    Command,
    Status,
    fail,
    finding,
    quoted,
    unknown,
    warn,
    worst,
)
from penstock.doctor.seen import Limits, Unseen
from rig.cluster_seen import ALL, seen

UNKNOWABLE = {"offset-reset"}


def test_nothing_is_wrong_with_a_cluster_where_nothing_is() -> None:
    found = examine(seen(), Limits())
    assert len({one.check for one in found}) == len(CHECKS) == 22
    assert {one.check for one in found if one.status is Status.UNKNOWN} == UNKNOWABLE
    assert [one for one in found if one.status in (Status.WARN, Status.FAIL)] == []


def test_what_could_not_be_asked_is_unknown_with_its_reason() -> None:
    nothing = Unseen(reason="no answer within 15 s")
    blind = seen(
        topic_settings=nothing,
        broker_settings=dict.fromkeys(ALL, nothing),
        directories=dict.fromkeys(ALL, nothing),
        descriptors=dict.fromkeys(ALL, nothing),
        early_acks=dict.fromkeys(ALL, nothing),
        logs=nothing,
        batches=nothing,
        groups=nothing,
        acls=nothing,
        transactions=nothing,
        hanging=nothing,
        clock=nothing,
        clocks=dict.fromkeys(ALL, nothing),
    )
    found = examine(blind, Limits())
    by_metadata = {
        "replication",
        "offline",
        "under-replicated",
        "leader-balance",
        "partitions",
    }
    assert {one.check for one in found if one.status is Status.PASS} == by_metadata
    unknowns = [one for one in found if one.status is Status.UNKNOWN]
    assert len(unknowns) + len(by_metadata) == len(CHECKS)
    told = [one.reason for one in unknowns if one.check not in UNKNOWABLE]
    assert all(one.startswith("no answer within 15 s") for one in told)


def test_the_worst_fault_decides_and_is_told_first() -> None:
    found = finding("x", [unknown("u"), warn("w"), fail("f"), warn("v")], passed="all is well")
    assert (found.status, found.reason) == (Status.FAIL, "f; w; v; and 1 more")
    assert finding("x", [], passed="all is well").reason == "all is well"
    assert finding("x", [unknown("u")], passed="").status is Status.UNKNOWN
    assert worst([found, finding("y", [], passed="")]) is Status.FAIL


def test_one_advice_for_many_faults_is_given_once() -> None:
    advice = Advice(text="start it again")
    found = finding("x", [fail("a", advice), fail("b", advice)], passed="")
    assert found.mends == (advice,)


@pytest.mark.parametrize("name", ["orders", "o rders", "it's", "--help", "$HOME", "日本"])
def test_a_shell_reads_a_command_as_it_was_meant(name: str) -> None:
    command = Command(verb="groups delete", names=(name,), options=("--json",))
    words = shlex.split(" ".join(command.words(["--bootstrap", "h:1"])))
    assert words[:3] == ["penstock", "groups", "delete"]
    assert name in words
    if name.startswith("-"):
        assert words[-2:] == ["--", name]


@pytest.mark.parametrize("name", ["a\x1b[2J\nb", "\u202ex'y\\", "\x7f1", "tab\t"])
def test_what_no_terminal_should_get_is_escaped_for_the_shell(name: str) -> None:
    assert quoted(name).isprintable()
    said = subprocess.run(
        ["bash", "-c", f"printf %s {quoted(name)}"], capture_output=True, check=True
    )
    assert said.stdout.decode() == name


def test_a_command_at_the_end_of_an_advice_means_the_same_cluster() -> None:
    drain = Command(verb="partitions reassign", options=("--drain", "3"))
    advice = Advice(text="if gone for good", command=drain)
    assert advice.line(["--bootstrap", "other:9092"]) == (
        "if gone for good: penstock partitions reassign --drain 3 --bootstrap other:9092"
    )
