"""What the journal keeps of a classic group: the last assigned generation. Its static members have
the ids that they have now, also when these were given out in a generation that is not assigned yet.

A group found in the journal has no rebalance under way: it is stable, or empty without members.
"""

from collections.abc import Mapping
from copy import copy

from penstock.groups.classic.group import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    SupportedProtocol,
)
from penstock.wire.messages.coordinator_records.group_metadata import (
    GroupMetadataValue,
    MemberMetadata,
)

NOT_STORED = -1  # older versions have no rebalance time-out and no time of the last change


def value_of(group: ClassicGroup) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=(
            NOT_STORED if group.state_since_ms is None else group.state_since_ms
        ),
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def has_static_members(value: GroupMetadataValue) -> bool:
    return any(member.group_instance_id is not None for member in value.members)


def with_present_ids(
    stored: GroupMetadataValue, static_members: Mapping[str, str]
) -> GroupMetadataValue:
    """The same generation and assignment; static members have the ids that they have now, by
    instance id, and those that have none are not members any more.
    """
    members: list[MemberMetadata] = []
    leader = stored.leader
    for member in stored.members:
        member_id: str | None = member.member_id
        if member.group_instance_id is not None:
            member_id = static_members.get(member.group_instance_id)
        if stored.leader == member.member_id:
            leader = member_id
        if member_id is not None:
            present = copy(member)
            present.member_id = member_id
            members.append(present)
    value = copy(stored)
    value.members, value.leader = members, leader
    return value


def group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group of a record. Another broker may have written it, so nothing is asserted."""
    since_ms = value.current_state_timestamp
    group = ClassicGroup(
        group_id=group_id,
        state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
        state_since_ms=None if since_ms == NOT_STORED else since_ms,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol or ("" if value.members else None),
        leader=value.leader if any(m.member_id == value.leader for m in value.members) else None,
        stored=value if has_static_members(value) else None,
    )
    for stored in value.members:
        member = _member_of(stored, protocol_name=group.protocol_name or "")
        if member.instance_id in group.static_members or member.member_id in group.members:
            continue
        group.add(member, protocol_type=value.protocol_type)
    return group


def _member_of(stored: MemberMetadata, *, protocol_name: str) -> ClassicMember:
    rebalance_timeout_ms = stored.rebalance_timeout
    return ClassicMember(
        member_id=stored.member_id,
        instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout,
        rebalance_timeout_ms=(
            stored.session_timeout if rebalance_timeout_ms == NOT_STORED else rebalance_timeout_ms
        ),
        protocols=(SupportedProtocol(protocol_name, stored.subscription),),
        assignment=stored.assignment,
    )
