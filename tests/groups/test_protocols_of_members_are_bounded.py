"""What classic members bring for their protocols is as much as a coordinator could store."""

from collections.abc import Mapping

from penstock.groups.classic.group import ClassicGroup
from penstock.model.error import ErrorCode
from penstock.model.limit import (
    CLASSIC_PROTOCOLS_BYTES_MAX,
    CLASSIC_PROTOCOLS_MAX,
    DECISION_BYTES_MAX,
)
from penstock.wire.embedded import write_embedded
from penstock.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from rig.group_world import GroupWorld

HALF = DECISION_BYTES_MAX // 2
LONG_MS = 300_000


def join(
    world: GroupWorld,
    protocols: Mapping[str, bytes],
    *,
    member: str = "",
    instance: str | None = None,
    version: int = 3,
) -> int:
    request = JoinGroupRequest(
        group_id="g",
        member_id=member,
        group_instance_id=instance,
        session_timeout_ms=LONG_MS,
        rebalance_timeout_ms=LONG_MS,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in protocols.items()
        ],
    )
    return world.ask(request, version=version)


def refusal(world: GroupWorld, ticket: int) -> ErrorCode | None:
    """None while the join is parked."""
    reply = world.answers.get(ticket)
    assert reply is None or isinstance(reply, JoinGroupResponse), reply
    return None if reply is None else ErrorCode(reply.error_code)


def test_a_member_has_as_many_protocols_as_it_may_and_no_more() -> None:
    names = [f"p{number}" for number in range(CLASSIC_PROTOCOLS_MAX)]
    world = GroupWorld()
    refused = join(world, dict.fromkeys([*names, "more"], b""))
    assert refusal(world, refused) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert "g" not in world.shard.groups
    assert refusal(world, join(world, dict.fromkeys(names, b""))) is None


def test_metadata_of_all_members_for_one_protocol_are_what_one_decision_stores() -> None:
    world = GroupWorld()
    for _ in range(2):
        assert refusal(world, join(world, {"range": bytes(HALF), "sticky": bytes(HALF)})) is None
    refused = join(world, {"range": b"x"})
    assert refusal(world, refused) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refusal(world, join(world, {"range": b""})) is None


def test_all_that_members_bring_is_bounded_whichever_protocol_it_is_for() -> None:
    world = GroupWorld()
    assert refusal(world, join(world, {"common": b""})) is None
    for number in range(CLASSIC_PROTOCOLS_BYTES_MAX // HALF - 1):
        ticket = join(world, {"common": b"", f"own{number}": bytes(HALF)})
        assert refusal(world, ticket) is None
    refused = join(world, {"common": b"", "last": bytes(HALF)})
    assert refusal(world, refused) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_member_that_joins_again_replaces_what_it_brought() -> None:
    world = GroupWorld()
    whole = bytes(DECISION_BYTES_MAX)
    join(world, {"range": whole}, instance="i", version=5)
    world.pass_time(5_000)
    group = world.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    [member] = group.members
    again = join(world, {"range": bytes(whole)}, member=member, instance="i", version=5)
    assert refusal(world, again) is ErrorCode.NONE
    restarted = join(world, {"range": bytes(whole)}, instance="i", version=5)
    assert refusal(world, restarted) is not ErrorCode.GROUP_MAX_SIZE_REACHED
    world.check()


def test_classic_members_of_a_consumer_group_have_the_same_bounds() -> None:
    world = GroupWorld()
    begin = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="first",
        member_epoch=0,
        rebalance_timeout_ms=LONG_MS,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    world.ask(begin, version=1)
    many = dict.fromkeys([f"p{number}" for number in range(CLASSIC_PROTOCOLS_MAX + 1)], b"")
    refused = join(world, many, member="m", version=5)
    assert refusal(world, refused) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    told = ConsumerProtocolSubscription(topics=["t"], user_data=bytes(DECISION_BYTES_MAX * 5 // 8))
    large = {"range": write_embedded(told, version=1)}
    codes = [refusal(world, join(world, large, member=f"m{n}", version=5)) for n in range(7)]
    assert codes == [*[ErrorCode.NONE] * 6, ErrorCode.GROUP_MAX_SIZE_REACHED]
