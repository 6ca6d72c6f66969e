"""The groups of one broker at one moment: their state, their members, what they committed.

A broker lists the groups that it coordinates, so it is also the one to ask about them: one question
of each kind for all groups together, however many there are.
"""

from collections.abc import Mapping, Sequence

from penstock.client.admin.groups import GroupKind, group_kind
from penstock.client.consume.group_offsets import NAMES_VERSION_MAX
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused, UnsupportedByBroker, error_code
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from penstock.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from penstock.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

MANY_GROUPS_VERSION = 8  # the first one of OffsetFetch that asks for several groups
WITH_OFFSETS = (GroupKind.CLASSIC, GroupKind.CONSUMER, GroupKind.STREAMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSample:
    group_id: str
    kind: GroupKind
    state: str | None  # in the broker's words; None where nobody told
    members: int | None  # None where nobody told
    committed: Mapping[TopicPartition, Offset]


async def sample_groups(cluster: Cluster, node: NodeId) -> list[GroupSample]:
    """Those that this broker coordinates. ClientError when it can't be asked."""
    listed = await cluster.ask(node, ListGroupsRequest(), ListGroupsResponse)
    code = error_code(listed.error_code)
    if code != ErrorCode.NONE:
        raise Refused(code, f"groups of broker {node}")
    kinds = {one.group_id: group_kind(one.group_type) for one in listed.groups}
    states: dict[str, str | None] = {one.group_id: one.group_state or None for one in listed.groups}
    members: dict[str, int] = {}
    for told in await _described(cluster, node, kinds):
        states[told[0]], members[told[0]] = told[1], told[2]
    with_offsets = [group_id for group_id, kind in kinds.items() if kind in WITH_OFFSETS]
    committed = await _committed(cluster, node, with_offsets)
    return [
        GroupSample(
            group_id=group_id,
            kind=kind,
            state=states[group_id],
            members=members.get(group_id),
            committed=committed.get(group_id, {}),
        )
        for group_id, kind in kinds.items()
    ]


async def _described(
    cluster: Cluster, node: NodeId, kinds: Mapping[str, GroupKind]
) -> list[tuple[str, str, int]]:
    """Of each group that the broker describes: its id, state and number of members."""
    found = []
    classic = [group_id for group_id, kind in kinds.items() if kind is GroupKind.CLASSIC]
    if classic:
        old = await cluster.ask(node, DescribeGroupsRequest(groups=classic), DescribeGroupsResponse)
        found += [
            (told.group_id, told.group_state, len(told.members))
            for told in old.groups
            if told.error_code == ErrorCode.NONE
        ]
    modern = [group_id for group_id, kind in kinds.items() if kind is GroupKind.CONSUMER]
    if modern:
        request = ConsumerGroupDescribeRequest(group_ids=modern)
        try:
            new = await cluster.ask(node, request, ConsumerGroupDescribeResponse)
        except UnsupportedByBroker:
            return found
        found += [
            (told.group_id, told.group_state, len(told.members))
            for told in new.groups
            if told.error_code == ErrorCode.NONE
        ]
    return found


async def _committed(
    cluster: Cluster, node: NodeId, group_ids: Sequence[str]
) -> dict[str, dict[TopicPartition, Offset]]:
    """By group; a group or a partition that the broker has an error for is left out."""
    if not group_ids:
        return {}
    channel = await cluster.channel(node)
    version = channel.version_for(OffsetFetchRequest, at_most=NAMES_VERSION_MAX)
    if version >= MANY_GROUPS_VERSION:
        wanted = [OffsetFetchRequestGroup(group_id=one, topics=None) for one in group_ids]
        request = OffsetFetchRequest(topics=None, groups=wanted)
        reply = await cluster.ask(node, request, OffsetFetchResponse, version)
        return {
            told.group_id: {
                TopicPartition(topic.name, one.partition_index): Offset(one.committed_offset)
                for topic in told.topics
                for one in topic.partitions
                if one.error_code == ErrorCode.NONE and one.committed_offset >= 0
            }
            for told in reply.groups
            if told.error_code == ErrorCode.NONE
        }
    found = {}
    for group_id in group_ids:
        request = OffsetFetchRequest(group_id=group_id, topics=None)
        reply = await cluster.ask(node, request, OffsetFetchResponse, version)
        found[group_id] = {
            TopicPartition(topic.name, one.partition_index): Offset(one.committed_offset)
            for topic in reply.topics
            for one in topic.partitions
            if one.error_code == ErrorCode.NONE and one.committed_offset >= 0
        }
    return found
