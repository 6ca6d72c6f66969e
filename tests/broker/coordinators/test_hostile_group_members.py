"""Members of groups that send what makes no sense, or too much of it: they alone suffer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.heartbeat import HeartbeatRequest
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from rig.dialogue import Dialogue
from rig.running_node import running_node

MIB = 1024 * 1024


@pytest.fixture
def dialogue(tmp_path: Path) -> Iterator[Dialogue]:
    with running_node(tmp_path / "node", group_initial_rebalance_delay_ms="0") as node:
        one = Dialogue(node.bootstrap, "t")
        found = one.exchange(FindCoordinatorRequest(coordinator_keys=["g"]), version=6)
        assert found.coordinators[0].error_code == ErrorCode.NONE
        yield one
        one.close()


def join(dialogue: Dialogue, metadata: bytes, *, group: str = "g") -> JoinGroupResponse:
    """With the version that needs no handshake; alone in its group, so it leads."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    reply = dialogue.exchange(request, version=3)
    assert isinstance(reply, JoinGroupResponse)
    return reply


def sync(dialogue: Dialogue, joined: JoinGroupResponse, assignment: bytes) -> ErrorCode:
    part = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[part],
    )
    return ErrorCode(dialogue.exchange(request, version=3).error_code)


def describe(dialogue: Dialogue) -> DescribedGroup:
    [group] = dialogue.exchange(DescribeGroupsRequest(groups=["g"]), version=5).groups
    assert isinstance(group, DescribedGroup)
    return group


@pytest.mark.parametrize(
    "metadata", [b"", b"\x00", b"\xff\xff", b"\x00\x03\x7f\xff\xff\xff", bytes(9)]
)
def test_metadata_that_make_no_sense_are_passed_on(dialogue: Dialogue, metadata: bytes) -> None:
    joined = join(dialogue, metadata)
    assert joined.error_code == ErrorCode.NONE
    assert [bytes(member.metadata) for member in joined.members] == [metadata]
    assert sync(dialogue, joined, b"no assignment either") is ErrorCode.NONE
    [member] = describe(dialogue).members
    assert bytes(member.member_metadata) == metadata
    assert bytes(member.member_assignment) == b"no assignment either"


def test_metadata_too_large_to_store_are_refused_at_the_join(dialogue: Dialogue) -> None:
    assert join(dialogue, bytes(10 * MIB)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert describe(dialogue).group_state == "Dead"
    again = join(dialogue, b"small")
    assert sync(dialogue, again, b"x") is ErrorCode.NONE


def test_a_member_with_very_many_protocols_is_refused(dialogue: Dialogue) -> None:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=f"p{number}") for number in range(99_000)],
    )
    for version in (3, 5, 9):
        reply = dialogue.exchange(request, version=version)
        assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert describe(dialogue).group_state == "Dead"


def test_a_consumer_that_subscribes_to_very_many_names_is_refused(dialogue: Dialogue) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[f"n{number}" for number in range(90_000)],
        topic_partitions=[],
    )
    reply = dialogue.exchange(request, version=1)
    assert reply.error_code == ErrorCode.INVALID_REQUEST
    assert "90000" in reply.error_message
    request.subscribed_topic_names = ["n"]
    assert dialogue.exchange(request, version=1).error_code == ErrorCode.NONE


def test_an_assignment_too_large_to_store_is_refused(dialogue: Dialogue) -> None:
    joined = join(dialogue, b"small")
    assert sync(dialogue, joined, bytes(10 * MIB)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert describe(dialogue).members[0].member_assignment == b""


def test_a_group_without_a_name_is_refused(dialogue: Dialogue) -> None:
    assert join(dialogue, b"", group="").error_code == ErrorCode.INVALID_GROUP_ID
    heartbeat = dialogue.exchange(HeartbeatRequest(), version=4)
    assert heartbeat.error_code == ErrorCode.INVALID_GROUP_ID
    left = dialogue.exchange(LeaveGroupRequest(members=[MemberIdentity()]), version=5)
    assert left.error_code == ErrorCode.INVALID_GROUP_ID
    synced = dialogue.exchange(SyncGroupRequest(), version=4)
    assert synced.error_code == ErrorCode.INVALID_GROUP_ID


def test_a_sync_of_version_five_without_a_protocol_is_refused(dialogue: Dialogue) -> None:
    joined = join(dialogue, b"small")
    request = SyncGroupRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
    )
    reply = dialogue.exchange(request, version=5)
    assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_members_without_protocols_are_refused(dialogue: Dialogue) -> None:
    request = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer")
    for version in (0, 3, 5, 9):
        reply = dialogue.exchange(request, version=version)
        assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert describe(dialogue).group_state == "Dead"
