"""Ids that a coordinator makes up for classic members: short, and few of them unused."""

import pytest

from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from rig.group_world import GroupWorld


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
