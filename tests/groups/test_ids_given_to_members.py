"""Ids that a coordinator makes up for classic members: short, and few of them unused."""

from dataclasses import replace

import pytest

from penstock.groups.classic.group import ClassicGroup
from penstock.model.error import ErrorCode
from penstock.model.limit import (
    CLASSIC_GROUP_MEMBERS_MAX,
    PENDING_MEMBER_MS_MAX,
    PENDING_MEMBERS_MAX,
)
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from rig.group_world import GroupWorld

STRANGERS = PENDING_MEMBERS_MAX + 100


def joining(*, member_id: str = "", instance_id: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def answer(world: GroupWorld, ticket: int) -> JoinGroupResponse:
    reply = world.answers[ticket]
    assert isinstance(reply, JoinGroupResponse)
    return reply


@pytest.mark.parametrize("version", [0, 3, 4, 5, 9])
@pytest.mark.parametrize("name", ["i" * 32_767, "é" * 16_383])
@pytest.mark.parametrize("is_static", [False, True])
def test_an_id_is_short_whatever_its_owner_is_called(
    version: int, name: str, is_static: bool
) -> None:
    world = GroupWorld({"group.initial.rebalance.delay.ms": "0"})
    request = joining(instance_id=name if is_static else None)
    ticket = world.ask(request, version=version, client_id=name)
    world.pass_time(1000)
    reply = answer(world, ticket)
    assert reply.member_id.startswith(name[:255] + "-")
    assert len(reply.member_id) < 300


def group_of(world: GroupWorld) -> ClassicGroup:
    group = world.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


def test_strangers_that_never_come_back_leave_few_ids_behind() -> None:
    world = GroupWorld()
    ids = [answer(world, world.ask(joining(), version=9)).member_id for _ in range(STRANGERS)]
    assert list(group_of(world).pending) == ids[-PENDING_MEMBERS_MAX:]
    world.check()
    forgotten = world.ask(joining(member_id=ids[0]), version=9)
    assert answer(world, forgotten).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    remembered = world.ask(joining(member_id=ids[-1]), version=9)
    assert remembered in world.parked
    world.check()


def test_an_id_that_nobody_uses_is_soon_forgotten_whatever_session_was_asked_for() -> None:
    world = GroupWorld()
    world.ask(joining(), version=9)
    world.pass_time(PENDING_MEMBER_MS_MAX - 1)
    assert len(group_of(world).pending) == 1
    world.pass_time(1)
    assert not group_of(world).pending
    world.check()


def test_a_stranger_costs_no_copy_of_the_group() -> None:
    world = GroupWorld()
    world.ask(joining(), version=9)
    group = group_of(world)
    world.ask(joining(), version=9)
    assert group_of(world) is group
    assert len(group.pending) == 2


def test_a_group_has_a_bound_without_one_being_set() -> None:
    world = GroupWorld()
    assert world.ask(joining(), version=3) in world.parked
    crowd = group_of(world).copy()
    (first,) = crowd.members.values()
    for number in range(1, CLASSIC_GROUP_MEMBERS_MAX):
        crowd.add(replace(first, member_id=f"m{number}"), protocol_type="consumer")
    world.shard.groups["g"] = crowd
    turned_away = answer(world, world.ask(joining(), version=3))
    assert turned_away.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group_of(world) is crowd
