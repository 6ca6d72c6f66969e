"""Classic members that tell more than one record holds keep no silent member in their group."""

from penstock.groups.consumer.group import ConsumerGroup
from penstock.model.error import ErrorCode
from penstock.model.limit import DECISION_BYTES_MAX
from penstock.wire.embedded import write_embedded
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from rig.group_world import GroupWorld

LONG_MS = 1_800_000
MUCH = bytes(DECISION_BYTES_MAX * 5 // 8)  # one fits into a batch, two do not


def test_a_silent_member_is_put_out_though_the_others_make_no_classic_group() -> None:
    world = GroupWorld()
    begin = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="silent",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    begun = world.answers[world.ask(begin, version=1)]
    assert isinstance(begun, ConsumerGroupHeartbeatResponse), begun
    assert begun.error_code == ErrorCode.NONE
    told = ConsumerProtocolSubscription(topics=["t"], user_data=MUCH)
    for member in ("a", "b"):
        join = JoinGroupRequest(
            group_id="g",
            member_id=member,
            session_timeout_ms=LONG_MS,
            rebalance_timeout_ms=LONG_MS,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name="range", metadata=write_embedded(told, version=1))
            ],
        )
        joined = world.answers[world.ask(join, version=5)]
        assert isinstance(joined, JoinGroupResponse), joined
        assert joined.error_code == ErrorCode.NONE
    world.pass_time(120_000)
    group = world.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == ["a", "b"]
