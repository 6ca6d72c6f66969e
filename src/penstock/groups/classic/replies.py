"""Replies to JoinGroup and SyncGroup, made from a group."""

from penstock.groups.classic.group import ClassicGroup
from penstock.model.error import ErrorCode
from penstock.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from penstock.wire.messages.sync_group import SyncGroupResponse


def join_refused(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None)


def joined(
    group: ClassicGroup, member_id: str, *, leader: str | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The current generation for one member; only the leader gets the list of members.

    A leader that must not assign again, and whose version cannot be told so, gets another `leader`
    than the real one.
    """
    named = leader or group.leader
    assert named is not None
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=named,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=described_members(group) if member_id == named else [],
    )


def described_members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in group.members.values()
    ]


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


def synced(group: ClassicGroup, member_id: str) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=group.members[member_id].assignment,
    )
