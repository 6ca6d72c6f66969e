"""What a member owns next: one step from what it owns towards the target, and never another's.

A partition changes hands in three steps: its owner is told to give it up, the owner reports that it
has, and then whoever the target names may have it. Members wait for these steps alone; whatever
stays where it is, is read all the time.
"""

from collections.abc import Callable
from dataclasses import replace

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.consumer.member import NOTHING, ConsumerMember, MemberState, Owned
from penstock.model.identity import TopicId

Partitions = frozenset[TopicIdPartition]


def reconcile(
    member: ConsumerMember,
    *,
    target: Partitions,
    target_epoch: int,
    is_free: Callable[[TopicIdPartition], bool],
    reported: Partitions | None,
) -> ConsumerMember:
    """The member after its next step; itself when it can't take one.

    `is_free`: nobody else owns the partition, nor is about to give it up. `reported` is what the
    member says it owns, None when it did not say.
    """
    if member.is_reconciled_to(target_epoch):
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _holds_on(reported, member.revoking):
        return member
    keeps = {p: since for p, since in member.assigned.items() if p in target}
    gives_up = {p: since for p, since in member.assigned.items() if p not in target}
    if gives_up and _holds_on(reported, gives_up):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=keeps,
            revoking=gives_up,
        )
    wanted = sorted(p for p in target if p not in keeps)
    takes = [p for p in wanted if is_free(p)]
    all_free = len(takes) == len(wanted)
    return replace(
        member,
        state=MemberState.STABLE if all_free else MemberState.UNRELEASED_PARTITIONS,
        epoch=target_epoch,
        previous_epoch=member.previous_epoch if member.epoch == target_epoch else member.epoch,
        assigned={**keeps, **dict.fromkeys(takes, target_epoch)},
        revoking=NOTHING,
    )


def without_topics(member: ConsumerMember, subscribed: frozenset[TopicId]) -> ConsumerMember:
    """A member that gives up partitions and meanwhile unsubscribes gives up those as well."""
    dropped = {p: since for p, since in member.assigned.items() if p.topic_id not in subscribed}
    if member.state is not MemberState.UNREVOKED_PARTITIONS or not dropped:
        return member
    keeps = {p: since for p, since in member.assigned.items() if p not in dropped}
    return replace(member, assigned=keeps, revoking={**member.revoking, **dropped})


def _holds_on(reported: Partitions | None, to_give_up: Owned) -> bool:
    """Whether it still owns any of these, as far as it has told."""
    return reported is None or any(partition in to_give_up for partition in reported)
