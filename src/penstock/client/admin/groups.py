"""The groups of a cluster: which there are, who is in them, and their end.

Each broker knows the groups that it coordinates, so a list is asked of all of them. A group is
described by the protocol it follows: the one of KIP-848 is asked for first, and what is not found
there is a classic one. Both come out as one kind of description.
"""

from collections.abc import Iterable, Sequence
from enum import Enum

from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused, UnsupportedByBroker, error_code
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.embedded import read_embedded
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from penstock.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from penstock.wire.messages.consumer_group_describe import Member as DescribedConsumer
from penstock.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from penstock.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from penstock.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from penstock.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

NO_GROUP = "there is no such group"
DEAD = "Dead"


class GroupKind(Enum):
    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"  # of a newer broker


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    group_id: str
    kind: GroupKind
    protocol_type: str
    state: str | None  # in the broker's words; None where it is too old to say


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None  # of KIP-848
    subscribed: tuple[str, ...]
    subscribed_pattern: str | None
    assigned: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None  # what it is to have, as KIP-848 tells


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    group_id: str
    kind: GroupKind
    state: str
    protocol_type: str
    assignor: str
    epoch: int | None
    coordinator: NodeId
    members: tuple[GroupMember, ...]


async def list_groups(
    cluster: Cluster, *, states: Sequence[str] = (), kinds: Sequence[GroupKind] = ()
) -> list[ListedGroup]:
    """By name; those in one of the states and of one of the kinds, where any are given."""
    brokers = (await cluster.refresh()).brokers
    found: dict[str, ListedGroup] = {}
    request = ListGroupsRequest(
        states_filter=list(states), types_filter=[kind.value for kind in kinds]
    )
    for node in brokers:
        reply = await cluster.ask(node, request, ListGroupsResponse)
        code = error_code(reply.error_code)
        if code != ErrorCode.NONE:
            raise Refused(code, f"broker {node}")
        for told in reply.groups:
            found[told.group_id] = ListedGroup(
                group_id=told.group_id,
                kind=group_kind(told.group_type),
                protocol_type=told.protocol_type,
                state=told.group_state or None,
            )
    return [found[group_id] for group_id in sorted(found)]


async def describe_groups(
    coordinators: Coordinators, group_ids: Iterable[str]
) -> dict[str, GroupDescription | Refused]:
    return {group_id: await _describe(coordinators, group_id) for group_id in group_ids}


async def delete_groups(
    coordinators: Coordinators, group_ids: Iterable[str]
) -> dict[str, Refused | None]:
    """Groups without members, with all that they committed."""
    found: dict[str, Refused | None] = {}
    for group_id in group_ids:
        reply = await coordinators.ask(
            group_id,
            DeleteGroupsRequest(groups_names=[group_id]),
            DeleteGroupsResponse,
            code_of=lambda reply: reply.results[0].error_code if reply.results else 0,
        )
        for told in reply.results:
            code = error_code(told.error_code)
            found[group_id] = None if code == ErrorCode.NONE else Refused(code, told.group_id)
    return found


async def _describe(coordinators: Coordinators, group_id: str) -> GroupDescription | Refused:
    modern = await _describe_modern(coordinators, group_id)
    if modern is not None and modern.error_code == ErrorCode.NONE:
        return _modern_group(modern, await coordinators.of(group_id))
    reply = await coordinators.ask(
        group_id,
        DescribeGroupsRequest(groups=[group_id]),
        DescribeGroupsResponse,
        code_of=lambda reply: reply.groups[0].error_code if reply.groups else 0,
    )
    [told] = reply.groups
    code = error_code(told.error_code)
    if code == ErrorCode.GROUP_ID_NOT_FOUND or (
        code == ErrorCode.NONE and told.group_state == DEAD
    ):
        return Refused(ErrorCode.GROUP_ID_NOT_FOUND, group_id, NO_GROUP)
    if code != ErrorCode.NONE:
        return Refused(code, group_id, told.error_message)
    return _classic_group(told, await coordinators.of(group_id))


async def _describe_modern(
    coordinators: Coordinators, group_id: str
) -> DescribedConsumerGroup | None:
    """None when the broker does not know KIP-848."""
    try:
        reply = await coordinators.ask(
            group_id,
            ConsumerGroupDescribeRequest(group_ids=[group_id]),
            ConsumerGroupDescribeResponse,
            code_of=lambda reply: reply.groups[0].error_code if reply.groups else 0,
        )
    except UnsupportedByBroker:
        return None
    [told] = reply.groups
    return told


def group_kind(told: str) -> GroupKind:
    try:
        # Brokers before 3.8 tell no kind, and have one.
        return GroupKind(told.lower()) if told else GroupKind.CLASSIC
    except ValueError:
        return GroupKind.UNKNOWN


def _modern_group(told: DescribedConsumerGroup, coordinator: NodeId) -> GroupDescription:
    return GroupDescription(
        group_id=told.group_id,
        kind=GroupKind.CONSUMER,
        state=told.group_state,
        protocol_type="consumer",
        assignor=told.assignor_name,
        epoch=told.group_epoch,
        coordinator=coordinator,
        members=tuple(_modern_member(member) for member in told.members),
    )


def _modern_member(told: DescribedConsumer) -> GroupMember:
    return GroupMember(
        member_id=told.member_id,
        instance_id=told.instance_id,
        client_id=told.client_id,
        host=told.client_host,
        epoch=told.member_epoch,
        subscribed=tuple(told.subscribed_topic_names),
        subscribed_pattern=told.subscribed_topic_regex or None,
        assigned=_places(told.assignment),
        target=_places(told.target_assignment),
    )


def _places(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, index)
        for topic in sorted(assignment.topic_partitions, key=lambda topic: topic.topic_name)
        for index in sorted(topic.partitions)
    )


def _classic_group(told: DescribedGroup, coordinator: NodeId) -> GroupDescription:
    return GroupDescription(
        group_id=told.group_id,
        kind=GroupKind.CLASSIC,
        state=told.group_state,
        protocol_type=told.protocol_type,
        assignor=told.protocol_data,
        epoch=None,
        coordinator=coordinator,
        members=tuple(_classic_member(member, told.protocol_type) for member in told.members),
    )


def _classic_member(told: DescribedGroupMember, protocol_type: str) -> GroupMember:
    """What members tell each other is read where they are consumers, and shown as nothing where
    it can't be.
    """
    subscription, assignment = ConsumerProtocolSubscription(), ConsumerProtocolAssignment()
    if protocol_type == "consumer":
        try:
            if told.member_metadata:
                subscription = read_embedded(ConsumerProtocolSubscription, told.member_metadata)
            if told.member_assignment:
                assignment = read_embedded(ConsumerProtocolAssignment, told.member_assignment)
        except MalformedMessage:
            pass
    return GroupMember(
        member_id=told.member_id,
        instance_id=told.group_instance_id,
        client_id=told.client_id,
        host=told.client_host,
        epoch=None,
        subscribed=tuple(subscription.topics),
        subscribed_pattern=None,
        assigned=tuple(
            TopicPartition(topic.topic, index)
            for topic in sorted(assignment.assigned_partitions, key=lambda topic: topic.topic)
            for index in sorted(topic.partitions)
        ),
        target=None,
    )
