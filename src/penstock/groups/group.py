"""A group of either protocol: the questions that a coordinator asks of both.

Each protocol has its own answer; this module only selects it.
"""

from collections.abc import Set

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.classic import checks as classic_checks
from penstock.groups.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, ClassicState
from penstock.groups.classic.subscription import subscribed_topics
from penstock.groups.classic.timeouts import changes_after_end, changes_after_load
from penstock.groups.consumer import checks as consumer_checks
from penstock.groups.consumer import subscription as consumer_subscription
from penstock.groups.consumer import timeouts as consumer_timeouts
from penstock.groups.consumer.conversion import changes_after_consumer_end, ended_records
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.decision_context import DecisionContext
from penstock.groups.records import ClassicGroupStored, GroupRecord, OffsetValue
from penstock.model.error import ErrorCode
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.messages.list_groups import ListedGroup

Group = ClassicGroup | ConsumerGroup

CLASSIC = "classic"
CONSUMER = "consumer"


def simple_group(group_id: str) -> ClassicGroup:
    """The group of a consumer that only commits offsets."""
    return ClassicGroup(group_id=group_id, state_since_ms=None)


def member_count(group: Group) -> int:
    return len(group.members)


def check_commit(
    group: Group,
    *,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    version: int,
    transactional: bool = False,
) -> ErrorCode:
    """Whether a member, or a client without membership, may commit offsets of the group."""
    if isinstance(group, ConsumerGroup):
        return consumer_checks.check_offset_commit(
            group,
            member_id=member_id,
            instance_id=instance_id,
            epoch=epoch,
            transactional=transactional,
            version=version,
        )
    return classic_checks.check_offset_commit(
        group,
        member_id=member_id,
        instance_id=instance_id,
        generation=epoch,
        transactional=transactional,
    )


def check_partition_commit(
    group: Group | None, *, member_id: str, epoch: int, partition: TopicIdPartition
) -> ErrorCode:
    """After `check_commit`: whether the member may commit for this partition."""
    if not isinstance(group, ConsumerGroup):
        return ErrorCode.NONE
    return consumer_checks.check_partition_commit(
        group, member_id=member_id, epoch=epoch, partition=partition
    )


def check_fetch(group: Group, *, member_id: str | None, epoch: int) -> ErrorCode:
    """The offsets of a classic group can be read by any client."""
    if isinstance(group, ConsumerGroup):
        return consumer_checks.check_offset_fetch(group, member_id=member_id, epoch=epoch)
    return ErrorCode.NONE


def check_offset_delete(group: Group) -> ErrorCode:
    """Which topics a consumer group reads is always known."""
    if isinstance(group, ConsumerGroup):
        return ErrorCode.NONE
    return classic_checks.check_offset_delete(group)


def check_group_delete(group: Group) -> ErrorCode:
    if isinstance(group, ConsumerGroup):
        return consumer_checks.check_group_delete(group)
    return classic_checks.check_group_delete(group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The topics that the members of a group read, computed once for all the topics and offsets
    that are then checked.
    """

    topics: Set[str] | None  # None where members do not tell
    are_consumers: bool

    def may_read(self, topic: str) -> bool:
        """Whether a member may read the topic; consumers whose topics are unknown may."""
        return self.are_consumers if self.topics is None else topic in self.topics


def readers_of(group: Group) -> Readers:
    if isinstance(group, ConsumerGroup):
        topics = consumer_subscription.group_names(group)
        return Readers(topics=topics, are_consumers=True)
    return Readers(topics=subscribed_topics(group), are_consumers=group.uses_consumer_protocol)


def expiry_start_ms(group: Group, readers: Readers, offset: OffsetValue) -> int | None:
    """When the retention of an offset begins; None while it does not.

    It begins with the commit; in a group that has become empty, when it did (KIP-211; Apache Kafka
    forgets that for groups of the consumer protocol). While the group has members, it begins only
    for topics that they are known not to read.
    """
    if isinstance(group, ConsumerGroup):
        if group.members:
            return offset.commit_timestamp_ms
        return max(offset.commit_timestamp_ms, group.target_made_ms)
    if group.protocol_type is None:
        return offset.commit_timestamp_ms
    if group.state is ClassicState.EMPTY:
        since_ms = group.state_since_ms
        return offset.commit_timestamp_ms if since_ms is None else since_ms
    if group.state is ClassicState.STABLE and readers.topics is not None:
        return offset.commit_timestamp_ms
    return None


def tombstones(group: Group) -> tuple[GroupRecord, ...]:
    """The tombstones of a group without members."""
    if isinstance(group, ConsumerGroup):
        return ended_records(group)
    return (ClassicGroupStored(group=group.group_id, value=None),)


def changes_at_end(group: Group) -> tuple[object, ...]:
    """The volatile changes that remove the rest of a group."""
    if isinstance(group, ConsumerGroup):
        return changes_after_consumer_end(group)
    return changes_after_end(group)


def changes_at_load(group: Group, context: DecisionContext) -> tuple[object, ...]:
    """The volatile changes that a group found in the journal needs, such as deadlines."""
    if isinstance(group, ConsumerGroup):
        return consumer_timeouts.changes_after_load(group, context)
    return changes_after_load(group, context)


def listed(group: Group) -> ListedGroup:
    if isinstance(group, ConsumerGroup):
        return ListedGroup(
            group_id=group.group_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            group_state=group.state.value,
            group_type=CONSUMER,
        )
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=CLASSIC,
    )
