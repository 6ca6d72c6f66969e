"""Records of a consumer group from its values, and back. Kafka's forms; lists are sorted."""

from collections.abc import Iterable
from dataclasses import replace

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.classic.group import SupportedProtocol
from penstock.groups.consumer.member import (
    ClassicSide,
    ConsumerMember,
    MemberState,
    Owned,
)
from penstock.groups.records import (
    ConsumerCurrentStored,
    ConsumerGroupStored,
    ConsumerMemberStored,
    ConsumerRegexStored,
    ConsumerTargetMemberStored,
    ConsumerTargetStored,
)
from penstock.model.identity import TopicId
from penstock.wire.messages.coordinator_records.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartition,
)


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[TopicId, list[int]]:
    """Partitions under their topics, both in order."""
    grouped: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        grouped.setdefault(topic_id, []).append(partition)
    return grouped


def group_stored(group: str, *, epoch: int, metadata_hash: int) -> ConsumerGroupStored:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerGroupStored(group=group, value=value)


def regex_stored(
    group: str, regex: str, *, topics: tuple[str, ...], version: int, now_ms: int
) -> ConsumerRegexStored:
    value = ConsumerGroupRegularExpressionValue(
        topics=list(topics), version=version, timestamp=now_ms
    )
    return ConsumerRegexStored(group=group, regex=regex, value=value)


def target_stored(group: str, *, epoch: int, now_ms: int) -> ConsumerTargetStored:
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=now_ms
    )
    return ConsumerTargetStored(group=group, value=value)


def target_member_stored(
    group: str, member_id: str, partitions: frozenset[TopicIdPartition]
) -> ConsumerTargetMemberStored:
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartition(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in by_topic(partitions).items()
        ]
    )
    return ConsumerTargetMemberStored(group=group, member=member_id, value=value)


def target_of(value: ConsumerGroupTargetAssignmentMemberValue) -> frozenset[TopicIdPartition]:
    return frozenset(
        TopicIdPartition(TopicId(bytes(topic.topic_id)), partition)
        for topic in value.topic_partitions
        for partition in topic.partitions
    )


def member_stored(group: str, member: ConsumerMember) -> ConsumerMemberStored:
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None if classic is None else _classic_value(classic),
    )
    return ConsumerMemberStored(group=group, member=member.member_id, value=value)


def with_metadata(
    member: ConsumerMember, value: ConsumerGroupMemberMetadataValue
) -> ConsumerMember:
    classic = value.classic_member_metadata
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(sorted(set(value.subscribed_topic_names))),
        regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None if classic is None else _classic_side(classic),
    )


def current_stored(group: str, member: ConsumerMember) -> ConsumerCurrentStored:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_owned_values(member.assigned),
        partitions_pending_revocation=_owned_values(member.revoking),
    )
    return ConsumerCurrentStored(group=group, member=member.member_id, value=value)


def with_current(
    member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue
) -> ConsumerMember:
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_owned(value.assigned_partitions, value.member_epoch),
        revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
    )


def _owned_values(owned: Owned) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic_id,
            partitions=numbers,
            assignment_epochs=[owned[TopicIdPartition(topic_id, number)] for number in numbers],
        )
        for topic_id, numbers in by_topic(owned).items()
    ]


def _owned(topics: list[CurrentTopicPartitions], member_epoch: int) -> Owned:
    """Coordinators before 4.3 did not write since when a partition is owned."""
    owned: dict[TopicIdPartition, int] = {}
    for topic in topics:
        epochs = topic.assignment_epochs or []
        if len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        for partition, epoch in zip(topic.partitions, epochs, strict=True):
            owned[TopicIdPartition(TopicId(bytes(topic.topic_id)), partition)] = epoch
    return owned


def _classic_value(classic: ClassicSide) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=protocol.name, metadata=protocol.metadata)
            for protocol in classic.protocols
        ],
    )


def _classic_side(value: ClassicMemberMetadata) -> ClassicSide:
    return ClassicSide(
        session_timeout_ms=value.session_timeout_ms,
        protocols=tuple(
            SupportedProtocol(protocol.name, bytes(protocol.metadata))
            for protocol in value.supported_protocols
        ),
    )
