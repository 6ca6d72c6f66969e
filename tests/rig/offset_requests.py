"""Requests about offsets, put to a shard and taken apart again."""

from collections.abc import Iterable, Mapping

from penstock.groups.offsets.delete import DeleteGroup, ForgetTopics, Progress
from penstock.model.error import ErrorCode
from penstock.wire.embedded import write_embedded
from penstock.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.wire.messages.delete_groups import DeletableGroupResult
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.wire.messages.leave_group import LeaveGroupRequest
from penstock.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
)
from penstock.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from rig.group_world import GroupWorld

Place = tuple[str, int]  # topic and partition
NO_MEMBER = -1
NAMED = 9  # the last version in which topics go by their names


def commit_request(
    group: str,
    offsets: Mapping[Place, int],
    *,
    member: str = "",
    epoch: int = NO_MEMBER,
    metadata: str | None = "",
    leader_epoch: int = -1,
    retention_ms: int = -1,
) -> OffsetCommitRequest:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, OffsetCommitRequestTopic(name=topic)).partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        retention_time_ms=retention_ms,
        topics=list(topics.values()),
    )


def commit(
    world: GroupWorld, request: OffsetCommitRequest, *, version: int = NAMED
) -> dict[Place, ErrorCode]:
    reply = world.answers[world.ask(request, version=version)]
    assert isinstance(reply, OffsetCommitResponse), reply
    return {
        (topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in reply.topics
        for partition in topic.partitions
    }


def fetch_reply(
    world: GroupWorld, request: OffsetFetchRequestGroup, *, version: int = NAMED
) -> OffsetFetchResponseGroup:
    reply = world.answers[world.ask(request, version=version)]
    assert isinstance(reply, OffsetFetchResponseGroup), reply
    return reply


def fetch(
    world: GroupWorld, group: str, places: Iterable[Place]
) -> dict[Place, OffsetFetchResponsePartitions]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    request = OffsetFetchRequestGroup(
        group_id=group,
        topics=[
            OffsetFetchRequestTopics(name=topic, partition_indexes=partitions)
            for topic, partitions in topics.items()
        ],
    )
    return _by_place(fetch_reply(world, request))


def committed(world: GroupWorld, group: str) -> dict[Place, int]:
    """All offsets of a group."""
    reply = fetch_reply(world, OffsetFetchRequestGroup(group_id=group, topics=None))
    assert reply.error_code == ErrorCode.NONE
    return {place: found.committed_offset for place, found in _by_place(reply).items()}


def delete_offsets(world: GroupWorld, group: str, places: Iterable[Place]) -> OffsetDeleteResponse:
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in places:
        part = OffsetDeleteRequestPartition(partition_index=partition)
        topics.setdefault(topic, []).append(part)
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )
    reply = world.answers[world.ask(request, version=0)]
    assert isinstance(reply, OffsetDeleteResponse), reply
    return reply


def delete_group(world: GroupWorld, group: str) -> ErrorCode:
    ticket = world.ask(DeleteGroup(group=group), version=2)
    while ticket not in world.answers:
        world.pass_time(1)
    reply = world.answers[ticket]
    assert isinstance(reply, DeletableGroupResult), reply
    return ErrorCode(reply.error_code)


def forget_topic(world: GroupWorld, topic: str) -> None:
    """What follows when the topic is deleted."""
    topic_id = world.image.topics_by_name[topic].topic_id
    asked = ForgetTopics(ids_by_name={topic: frozenset({topic_id})})
    while world.answers[world.ask(asked, version=0)] is Progress.MORE:
        pass


def listed(
    world: GroupWorld, *, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[ListedGroup]:
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    reply = world.answers[world.ask(request, version=5)]
    assert isinstance(reply, list), reply
    return reply


def _by_place(reply: OffsetFetchResponseGroup) -> dict[Place, OffsetFetchResponsePartitions]:
    return {
        (topic.name, partition.partition_index): partition
        for topic in reply.topics
        for partition in topic.partitions
    }


def join_alone(world: GroupWorld, group: str, *, topics: Iterable[str]) -> tuple[str, int]:
    """A group of one classic member that reads these topics: its id and generation."""
    subscription = ConsumerProtocolSubscription(topics=list(topics))
    protocol = JoinGroupRequestProtocol(
        name="range", metadata=write_embedded(subscription, version=1)
    )
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    ticket = world.ask(join, version=3)
    world.pass_time(world.settings.group_initial_rebalance_delay_ms)
    joined = world.answers[ticket]
    assert isinstance(joined, JoinGroupResponse), joined
    sync = SyncGroupRequest(
        group_id=group, member_id=joined.member_id, generation_id=joined.generation_id
    )
    synced = world.answers[world.ask(sync, version=3)]
    assert isinstance(synced, SyncGroupResponse), synced
    assert synced.error_code == ErrorCode.NONE
    return joined.member_id, joined.generation_id


def leave(world: GroupWorld, group: str, member: str) -> None:
    world.ask(LeaveGroupRequest(group_id=group, member_id=member), version=1)
