"""How a group gets from a change to its next assignment; every heartbeat and join does this.

    subscription or topics changed -> the group's epoch -> the target -> the member's next step

Each step reads the group as the records of the step before left it, and writes its own records.
"""

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.consumer.draft import Draft
from penstock.groups.consumer.member import NOTHING, ConsumerMember, MemberState
from penstock.groups.consumer.reconcile import LastReply, Partitions, reconcile, without_topics
from penstock.groups.consumer.stored import (
    current_stored,
    group_stored,
    member_stored,
    regex_stored,
)
from penstock.groups.consumer.subscription import (
    metadata_hash,
    resolve,
    resolved_again,
    subscribed_ids,
)
from penstock.groups.consumer.target import bring_target_up_to_date
from penstock.groups.records import (
    ConsumerCurrentStored,
    ConsumerMemberStored,
    ConsumerRegexStored,
    ConsumerTargetMemberStored,
)
from penstock.groups.timers import RevocationEnds
from penstock.model.error import ErrorCode, RequestError
from penstock.model.limit import (
    GROUP_REGEXES_MAX,
    REGEX_STEPS_MAX,
    SUBSCRIBED_NAMES_OF_GROUP_MAX,
    SUBSCRIBED_NAMES_OF_MEMBER_MAX,
)
from penstock.model.regex.pattern import Effort


def advance(
    draft: Draft, member: ConsumerMember, *, reported: Partitions | None, last_reply: LastReply
) -> ConsumerMember:
    """Stores the member as it is now, advances the group as far as possible, and returns the member
    after that. RequestError when its regular expression is invalid.
    """
    before = draft.group.members.get(member.member_id)
    subscribed = ((), "") if before is None else (before.topics, before.regex)
    resubscribes = subscribed != (member.topics, member.regex)
    if resubscribes:
        _check_names(draft, len(member.topics), len(subscribed[0]))
    if member != before:
        draft.write(member_stored(draft.group.group_id, member))
    if resubscribes:
        _resolve_regex(draft, member.regex)
        drop_unused_regexes(draft)
    _look_at_metadata(draft, resubscribes=resubscribes)
    bring_target_up_to_date(draft)
    stepped = _next_step(draft, member.member_id, reported, last_reply, resubscribes=resubscribes)
    if stepped != draft.group.members[member.member_id]:
        draft.write(current_stored(draft.group.group_id, stepped))
        _time_revocation(draft, before, stepped)
    return stepped


def remove_member(draft: Draft, member_id: str) -> None:
    """Removes a member. The caller has to call `raise_epoch` and `drop_unused_regexes`, once for
    all members that it removes.
    """
    group_id = draft.group.group_id
    draft.write(ConsumerCurrentStored(group=group_id, member=member_id, value=None))
    draft.write(ConsumerTargetMemberStored(group=group_id, member=member_id, value=None))
    draft.write(ConsumerMemberStored(group=group_id, member=member_id, value=None))
    draft.cancel_all(member_id)


def drop_unused_regexes(draft: Draft) -> None:
    used = {member.regex for member in draft.group.members.values()}
    for regex in tuple(draft.group.regexes):
        if regex not in used:
            draft.write(ConsumerRegexStored(group=draft.group.group_id, regex=regex, value=None))


def raise_epoch(draft: Draft) -> None:
    """Begins a new epoch without a member that has left. Expressions are not matched with topics
    that are new: only those count that a member may describe, and none of them asks here. The next
    heartbeat does.
    """
    _begin_epoch(draft)


def _begin_epoch(draft: Draft) -> None:
    group, image = draft.group, draft.context.image
    found = metadata_hash(group, image)
    draft.write(group_stored(group.group_id, epoch=group.epoch + 1, metadata_hash=found))


def _check_names(draft: Draft, count: int, count_before: int) -> None:
    """RequestError when a member subscribes to more names than a group may have: what changes the
    group, or compares its topics with those of the cluster, costs as much as these are many.
    """
    if count > SUBSCRIBED_NAMES_OF_MEMBER_MAX:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"SubscribedTopicNames has {count} names, more than {SUBSCRIBED_NAMES_OF_MEMBER_MAX}.",
        )
    more = count - count_before
    if more > 0 and draft.group.subscribed_count + more > SUBSCRIBED_NAMES_OF_GROUP_MAX:
        raise RequestError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The members of the consumer group subscribe to {draft.group.subscribed_count} topics "
            f"by name, those of each counted: {more} more would exceed "
            f"{SUBSCRIBED_NAMES_OF_GROUP_MAX}.",
        )


def _resolve_regex(draft: Draft, regex: str) -> None:
    if not regex or regex in draft.group.regexes:
        return
    if len(draft.group.regexes) >= GROUP_REGEXES_MAX:
        raise RequestError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"The members of the group have {GROUP_REGEXES_MAX} regular expressions already.",
        )
    context = draft.context
    found = resolve(regex, context.image, may_describe=context.may_describe)
    _store_regex(draft, regex, found)


def _look_at_metadata(draft: Draft, *, resubscribes: bool) -> None:
    """Another epoch for another subscription, or when the topics are not what they were."""
    has_seen_all = _has_seen_all(draft)
    if not resubscribes and has_seen_all:
        return
    if not has_seen_all:
        _resolve_again(draft)
    image = draft.context.image
    if resubscribes or metadata_hash(draft.group, image) != draft.group.metadata_hash:
        _begin_epoch(draft)
    draft.metadata_seen()


def _has_seen_all(draft: Draft) -> bool:
    seen = draft.group.seen
    return seen is not None and seen.offset == draft.context.image.offset


def _resolve_again(draft: Draft) -> None:
    """Topics may have come and gone since all expressions were resolved, and rights too. As in
    Kafka, whoever asks first after that decides for all members with the expression.
    """
    context = draft.context
    effort = Effort(left=REGEX_STEPS_MAX)
    for regex, topics in tuple(draft.group.regexes.items()):
        found = resolved_again(
            regex,
            topics,
            context.image,
            seen=draft.group.seen,
            effort=effort,
            may_describe=context.may_describe,
        )
        if found != topics:
            _store_regex(draft, regex, found)


def _store_regex(draft: Draft, regex: str, topics: tuple[str, ...]) -> None:
    record = regex_stored(
        draft.group.group_id,
        regex,
        topics=topics,
        version=draft.context.image.offset,
        now_ms=draft.context.now_ms,
    )
    draft.write(record)


def _next_step(
    draft: Draft,
    member_id: str,
    reported: Partitions | None,
    last_reply: LastReply,
    *,
    resubscribes: bool,
) -> ConsumerMember:
    group = draft.group
    member = group.members[member_id]
    if member.state is MemberState.UNKNOWN and (reported is None or reported):
        raise RequestError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The member is in an unknown state. It must abandon all its partitions and rejoin.",
        )

    def is_free(partition: TopicIdPartition) -> bool:
        return group.owners.get(partition, member_id) == member_id

    stepped = reconcile(
        member,
        target=group.target.get(member_id, frozenset()),
        target_epoch=group.target_epoch,
        is_free=is_free,
        reported=reported,
        last_reply=last_reply,
    )
    if stepped is member and resubscribes:
        stepped = without_topics(member, subscribed_ids(group, member, draft.context.image))
    return stepped


def _time_revocation(draft: Draft, before: ConsumerMember | None, member: ConsumerMember) -> None:
    """The time begins again only when there is more to give up: a member that changes its report
    with every heartbeat would never be removed otherwise.

    Members of the classic protocol have a time to join again instead.
    """
    if member.uses_classic_protocol:
        return
    timed = NOTHING if before is None or before.uses_classic_protocol else before.revoking
    key = RevocationEnds(group=draft.group.group_id, member=member.member_id)
    if not member.revoking:
        draft.cancel(key)
    elif not member.revoking.keys() <= timed.keys():
        draft.wait(key, for_ms=member.rebalance_timeout_ms)
