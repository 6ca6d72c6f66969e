"""Each rebalance has a cause and a member, found by comparing a group before and after."""

import pytest

from penstock.groups.rebalance_causes import Generation, Rebalance
from rig.group_scenario import Run, Scenario
from rig.group_world import GroupWorld
from rig.modern_scenario import ModernRun

Step = tuple[str, list[str]]  # what is done, and the causes that are found


def news(world: GroupWorld, seen: int) -> list[str]:
    return [
        f"generation {found.generation}"
        if isinstance(found, Generation)
        else f"{found.cause.value} {members_name(found)}".strip()
        for found in world.causes[seen:]
    ]


def members_name(found: Rebalance) -> str:
    member = found.member
    return "" if member is None else member.instance_id or member.client_id


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [
                ("a joins", []),
                ("a joins", ["member_joined a"]),
                ("3 s pass", ["generation 1"]),
                ("a syncs, assigning a=0", []),
                ("a heartbeats", []),
                ("b enters", ["member_joined b"]),
                ("a joins", ["generation 2"]),
                ("a syncs, assigning a=0 b=1", []),
                ("b leaves", ["member_left b"]),
                ("a joins", ["generation 3"]),
                ("a syncs, assigning a=0,1", []),
                ("60 s pass", ["session_timed_out a", "generation 4"]),
            ],
            id="joins, leaves, dies",
        ),
        pytest.param(
            [
                ("a enters", ["member_joined a"]),
                ("3 s pass", ["generation 1"]),
                ("a syncs, assigning a=0", []),
                ("a joins, saying u", ["subscription_changed a", "generation 2"]),
                ("a syncs, assigning a=0", []),
                ("a joins", ["leader_rejoined a", "generation 3"]),
            ],
            id="subscribes to others, asks again",
        ),
        pytest.param(
            [
                ("a joins, static i1", ["member_joined i1"]),
                ("3 s pass", ["generation 1"]),
                ("a syncs, assigning a=0", []),
                ("a restarts", []),
                ("a joins", ["static_member_replaced i1"]),
            ],
            id="static member",
        ),
        pytest.param(
            [
                ("a enters", ["member_joined a"]),
                ("3 s pass", ["generation 1"]),
                ("60 s pass", ["session_timed_out a", "generation 2"]),
            ],
            id="never syncs",
        ),
        pytest.param(
            [
                ("a enters, session 300 s, rebalance 60 s", ["member_joined a"]),
                ("3 s pass", ["generation 1"]),
                ("a syncs, assigning a=0", []),
                ("b enters, session 300 s, rebalance 60 s", ["member_joined b"]),
                ("60 s pass", ["rebalance_timed_out a", "generation 2"]),
            ],
            id="does not join again",
        ),
    ],
)
def test_classic_groups(steps: list[Step]) -> None:
    run = Run(Scenario(title="", lines=()))
    for step, expected in steps:
        seen = len(run.world.causes)
        run._do(step)
        run._news()
        assert news(run.world, seen) == expected, step


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [
                ("a joins t", ["member_joined a"]),
                ("a heartbeats", []),
                ("b joins t", ["member_joined b"]),
                ("a heartbeats", []),
                ("a reports", []),
                ("b leaves", ["member_left b"]),
                ("a dies", []),
                ("60 s pass", ["session_timed_out a"]),
            ],
            id="joins, leaves, dies",
        ),
        pytest.param(
            [
                ("a joins t", ["member_joined a"]),
                ("topic t grows by 2", []),
                ("a heartbeats", ["partitions_changed a"]),
                ("topic u appears with 3", []),
                ("a heartbeats", []),
                ("a subscribes t u", []),
                ("a heartbeats", ["subscription_changed a"]),
            ],
            id="topics and subscriptions",
        ),
        pytest.param(
            [
                ("a joins t, static i1", ["member_joined i1"]),
                ("b joins t, within 5 s", ["member_joined b"]),
                ("a steps out", []),
            ],
            id="static member steps out",
        ),
        pytest.param(
            [
                ("a joins t, within 5 s", ["member_joined a"]),
                ("b joins t", ["member_joined b"]),
                ("a heartbeats", []),
                ("5 s pass", ["rebalance_timed_out a"]),
            ],
            id="gives nothing up",
        ),
    ],
)
def test_consumer_groups(steps: list[Step]) -> None:
    run = ModernRun(Scenario(title="", lines=()))
    for step, expected in steps:
        seen = len(run.world.causes)
        run._do(step)
        assert news(run.world, seen) == expected, step
