"""Which members may join a consumer group: new ones, known ones, static ones that return."""

from dataclasses import replace

from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.groups.classic.timeouts import changes_after_end
from penstock.groups.consumer.advance import remove_member
from penstock.groups.consumer.conversion import upgrade
from penstock.groups.consumer.draft import Draft
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import JOINING_EPOCH, STATIC_LEAVING_EPOCH, ConsumerMember
from penstock.groups.consumer.stored import current_stored, member_stored, target_member_stored
from penstock.groups.decision_context import DecisionContext
from penstock.groups.records import ClassicGroupStored
from penstock.model.error import ErrorCode, RequestError
from penstock.model.limit import CONSUMER_GROUP_MEMBERS_MAX


def group_to_join(
    group: ClassicGroup | ConsumerGroup | None, context: DecisionContext, group_id: str
) -> Draft:
    """The group that a member of the consumer protocol joins. An empty classic group is replaced;
    one with members is upgraded, where that is allowed.
    """
    if isinstance(group, ConsumerGroup):
        return Draft(group, context)
    draft = Draft(ConsumerGroup(group_id=group_id), context)
    if group is None:
        return draft
    if group.state is ClassicState.EMPTY:
        ended = ClassicGroupStored(group=group_id, value=None)
        draft.replaces((ended,), changes_after_end(group))
        return draft
    upgrade(draft, group)
    return draft


def admit(
    draft: Draft, *, member_id: str, instance_id: str | None, uses_classic_protocol: bool
) -> ConsumerMember:
    """The member that joins, new or known. RequestError when it may not."""
    group = draft.group
    most = min(draft.context.settings.group_consumer_max_size, CONSUMER_GROUP_MEMBERS_MAX)
    if len(group.members) >= most and member_id not in group.members:
        raise RequestError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )
    former = None if instance_id is None else group.static_member(instance_id)
    if former is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    speak_alike = not uses_classic_protocol and not former.uses_classic_protocol
    if speak_alike and former.epoch != STATIC_LEAVING_EPOCH:
        if former.member_id == member_id:
            return former  # it has lost the reply to its join, or was fenced
        raise RequestError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {former.member_id} member.",
        )
    return _take_place_of(draft, former, member_id)


def _take_place_of(draft: Draft, former: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member came back: it owns and is to own what its former self did."""
    group_id = draft.group.group_id
    target = draft.group.target.get(former.member_id, frozenset())
    member = replace(former, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    remove_member(draft, former.member_id)
    draft.write(member_stored(group_id, member))
    draft.write(target_member_stored(group_id, member_id, target))
    draft.write(current_stored(group_id, member))
    return member
