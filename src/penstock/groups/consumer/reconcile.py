"""The next step of a member from its current assignment to the target; it never gets a partition
that another member owns.

A partition moves in three steps: its owner is asked to give it up, the owner reports that it has,
and then the member that the target names gets it. Partitions that do not move are read all the
time.

Replies get lost, so a report that a member does not own a partition is not enough: a member that
was assigned the partition, and has not received a later assignment without it, may still take it.
The partition is released when the member is known to have received one:

    it sends only what changed      so its last request was answered, and it has that reply
    it comes with the new epoch     so it has the reply that gave it this epoch
    it joins again                  so it has dropped all earlier assignments

Until then the partition stays among those that the member is giving up (ADR 27).
"""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum, auto

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.consumer.member import NOTHING, ConsumerMember, MemberState, Owned
from penstock.model.identity import TopicId

Partitions = frozenset[TopicIdPartition]


class LastReply(Enum):
    """What a request says about whether its member received the last reply."""

    RECEIVED = auto()  # it sends only what changed
    UNCERTAIN = auto()  # it sends everything, as members do after a request without a reply
    LOST = auto()  # it has the epoch before the present one
    VOID = auto()  # it joins anew: no earlier reply counts


def reconcile(
    member: ConsumerMember,
    *,
    target: Partitions,
    target_epoch: int,
    is_free: Callable[[TopicIdPartition], bool],
    reported: Partitions | None,
    last_reply: LastReply = LastReply.UNCERTAIN,
) -> ConsumerMember:
    """The member after its next step; unchanged when there is none.

    `is_free`: no other member owns the partition or is about to give it up. `reported` is what the
    member reports to own; None when it reports nothing.
    """
    if member.is_reconciled_to(target_epoch):
        return member
    if last_reply is LastReply.LOST:
        # It gets the same reply again: a step to another epoch would fence it if this reply is
        # lost as well.
        return _giving_up(member) if _owns_any(reported, member.revoking) else member
    is_unrevoked = member.state is MemberState.UNREVOKED_PARTITIONS
    if is_unrevoked and _holds_on(reported, member.revoking):
        return member
    if not is_unrevoked and _owns_any(reported, member.revoking):
        return _giving_up(member)
    # The epoch of the next step is proof only if it is another one.
    needs_proof = last_reply is not LastReply.VOID and member.epoch != target_epoch
    is_heard = not is_unrevoked or last_reply is LastReply.RECEIVED or not needs_proof
    unreleased = NOTHING if is_heard else member.revoking
    keeps = {p: since for p, since in member.assigned.items() if p in target}
    gives_up = {p: since for p, since in member.assigned.items() if p not in target}
    if gives_up and _holds_on(reported, gives_up):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=keeps,
            revoking={**unreleased, **gives_up},
        )
    if needs_proof:
        unreleased = {**unreleased, **gives_up}
    wanted = sorted(p for p in target if p not in keeps)
    takes = [p for p in wanted if is_free(p)]
    revoking = {p: since for p, since in unreleased.items() if p not in target}
    is_stable = len(takes) == len(wanted) and not revoking
    return replace(
        member,
        state=MemberState.STABLE if is_stable else MemberState.UNRELEASED_PARTITIONS,
        epoch=target_epoch,
        previous_epoch=member.previous_epoch if member.epoch == target_epoch else member.epoch,
        assigned={**keeps, **dict.fromkeys(takes, target_epoch)},
        revoking=revoking,
    )


def without_topics(member: ConsumerMember, subscribed: frozenset[TopicId]) -> ConsumerMember:
    """A member that gives up partitions and meanwhile unsubscribes gives up those as well."""
    dropped = {p: since for p, since in member.assigned.items() if p.topic_id not in subscribed}
    if member.state is not MemberState.UNREVOKED_PARTITIONS or not dropped:
        return member
    keeps = {p: since for p, since in member.assigned.items() if p not in dropped}
    return replace(member, assigned=keeps, revoking={**member.revoking, **dropped})


def _giving_up(member: ConsumerMember) -> ConsumerMember:
    """It owns what it is not to own: this is released when it reports that it has given it up."""
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        return member
    return replace(member, state=MemberState.UNREVOKED_PARTITIONS)


def _holds_on(reported: Partitions | None, to_give_up: Owned) -> bool:
    """Whether it may still own any of these, by what it has reported."""
    return reported is None or _owns_any(reported, to_give_up)


def _owns_any(reported: Partitions | None, partitions: Owned) -> bool:
    return reported is not None and any(partition in partitions for partition in reported)
