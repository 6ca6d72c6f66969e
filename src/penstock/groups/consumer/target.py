"""The target assignment: what each member is to own once the partitions are free."""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.groups.assignor.range import assign_ranges
from penstock.groups.assignor.spec import Assignor, GroupSpec, MemberSpec
from penstock.groups.assignor.uniform import assign_uniformly
from penstock.groups.consumer.draft import Draft
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.stored import target_member_stored, target_stored
from penstock.groups.consumer.subscription import ids_by_subscription
from penstock.metadata.image.image import Image

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_ranges}
)


def bring_target_up_to_date(draft: Draft) -> None:
    """Computes the target of the group's epoch, unless it exists already."""
    group, context = draft.group, draft.context
    if group.target_epoch >= group.epoch:
        return
    assignors = context.settings.group_consumer_assignors
    assign = ASSIGNORS[preferred_assignor(group, assignors)]
    for member_id, partitions in assign(_spec(group, context.image)).items():
        if group.target.get(member_id) != partitions:
            draft.write(target_member_stored(group.group_id, member_id, partitions))
    draft.write(target_stored(group.group_id, epoch=group.epoch, now_ms=context.now_ms))


def note_empty(draft: Draft) -> None:
    """Stores when the last member went, as the time of the target, which has nobody left in it. Its
    epoch stays behind that of the group, as in Apache Kafka, whose records have no other time.
    """
    group = draft.group
    now_ms = draft.context.now_ms
    draft.write(target_stored(group.group_id, epoch=group.target_epoch, now_ms=now_ms))


def preferred_assignor(group: ConsumerGroup, assignors: tuple[str, ...]) -> str:
    """The assignor that most members ask for; the first of the settings when none asks."""
    votes = dict.fromkeys(assignors, 0)
    for member in group.members.values():
        if member.assignor in votes:
            votes[member.assignor] += 1
    return max(assignors, key=lambda name: votes[name])


def _spec(group: ConsumerGroup, image: Image) -> GroupSpec:
    ids = ids_by_subscription(group, image)
    members = tuple(
        MemberSpec(
            member_id=member_id,
            instance_id=member.instance_id,
            topics=ids[member.topics, member.regex],
            owned=group.target.get(member_id, frozenset()),
        )
        for member_id, member in group.members.items()
    )
    topic_ids = frozenset().union(*(member.topics for member in members))
    return GroupSpec(
        members=members,
        partitions={
            topic_id: len(image.topics_by_id[topic_id].partitions) for topic_id in sorted(topic_ids)
        },
    )
