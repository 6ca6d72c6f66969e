"""ConsumerGroupDescribe, for one group."""

from collections.abc import Iterable

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ConsumerMember
from penstock.groups.consumer.stored import by_topic
from penstock.groups.consumer.target import preferred_assignor
from penstock.groups.decision_context import DecisionContext
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode
from penstock.wire.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe(group: ConsumerGroup, context: DecisionContext) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group, context.settings.group_consumer_assignors),
        members=[_described(group, member, context.image) for member in group.members.values()],
    )


def describe_absent(group_id: str, *, why: str) -> DescribedGroup:
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    return DescribedGroup(
        group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=why
    )


def _described(group: ConsumerGroup, member: ConsumerMember, image: Image) -> Member:
    classic = member.uses_classic_protocol
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(member.assigned, image),
        target_assignment=_assignment(group.target.get(member.member_id, ()), image),
        member_type=CLASSIC_MEMBER if classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Iterable[TopicIdPartition], image: Image) -> Assignment:
    """Topics that have been deleted are left out."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id,
                topic_name=image.topics_by_id[topic_id].name,
                partitions=numbers,
            )
            for topic_id, numbers in by_topic(partitions).items()
            if topic_id in image.topics_by_id
        ]
    )
