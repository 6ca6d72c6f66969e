"""DescribeGroups, for one group."""

from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.model.error import ErrorCode
from penstock.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember

NOT_FOUND_FROM = 6  # of the request's versions: before, a group that is not there is called Dead
DEAD = "Dead"


def describe(group: ClassicGroup) -> DescribedGroup:
    """The chosen protocol and the members' metadata for it are shown for stable groups only: during
    a rebalance they are about to change.
    """
    is_stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def describe_absent(group_id: str, *, version: int, why: str) -> DescribedGroup:
    described = DescribedGroup(group_id=group_id, group_state=DEAD)
    if version >= NOT_FOUND_FROM:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        described.error_message = why
    return described
