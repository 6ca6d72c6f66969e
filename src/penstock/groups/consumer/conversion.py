"""How a group changes its protocol while its members are running.

Upgrade: the first member of the consumer protocol turns a classic group into a consumer group. The
others continue with the classic protocol (`consumer/classic_members`) until they are restarted one
by one. Downgrade: when the last member of the consumer protocol has left, the classic members form
a classic group again. The setting group.consumer.migration.policy allows each of them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.changes import CancelDeadline
from penstock.groups.classic.draft import Draft as ClassicDraft
from penstock.groups.classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    ClassicMember,
    ClassicState,
)
from penstock.groups.classic.rebalance import prepare_rebalance
from penstock.groups.classic.replies import join_refused, sync_refused
from penstock.groups.classic.timeouts import changes_after_end
from penstock.groups.consumer.draft import Decided, Draft
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ClassicSide, ConsumerMember
from penstock.groups.consumer.stored import (
    by_topic,
    current_stored,
    group_stored,
    member_stored,
    target_member_stored,
    target_stored,
)
from penstock.groups.consumer.subscription import NO_TOPICS_HASH
from penstock.groups.decision_context import DecisionContext
from penstock.groups.records import (
    ClassicGroupStored,
    ConsumerCurrentStored,
    ConsumerGroupStored,
    ConsumerMemberStored,
    ConsumerRegexStored,
    ConsumerTargetMemberStored,
    ConsumerTargetStored,
    GroupRecord,
)
from penstock.groups.requests import Deliver
from penstock.groups.timers import MemberJoinEnds, MemberSyncEnds, RevocationEnds, SessionEnds
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode, RequestError
from penstock.model.limit import CONSUMER_GROUP_MEMBERS_MAX, DECISION_BYTES_MAX
from penstock.wire.embedded import VERSION_BYTES, read_embedded, write_embedded
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from penstock.wire.messages.join_group import JoinGroupResponse

UPGRADES = frozenset({"bidirectional", "upgrade"})
DOWNGRADES = frozenset({"bidirectional", "downgrade"})
TOLD_BYTES_MAX = DECISION_BYTES_MAX // 2  # leaves room for the assignment, and for what ends


def upgrade(draft: Draft, group: ClassicGroup) -> None:
    """Writes the classic group's members into the draft of a consumer group: each keeps what it
    has, in the epoch of its generation. RequestError when the group cannot become one.
    """
    settings = draft.context.settings
    most = min(settings.group_consumer_max_size, CONSUMER_GROUP_MEMBERS_MAX)
    if (
        settings.group_consumer_migration_policy not in UPGRADES
        or not group.uses_consumer_protocol
        or len(group.members) > most
    ):
        message = f"Group {group.group_id} is not a consumer group."
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, message)
    members = _upgraded_members(group, draft.context.image)
    _end_classic(draft, group)
    name, epoch = group.group_id, max(group.generation, 0)
    for member in members:
        draft.write(member_stored(name, member))
    draft.write(group_stored(name, epoch=epoch, metadata_hash=NO_TOPICS_HASH))
    for member in members:
        draft.write(target_member_stored(name, member.member_id, frozenset(member.assigned)))
    draft.write(target_stored(name, epoch=epoch, now_ms=draft.context.now_ms))
    for member in members:
        draft.write(current_stored(name, member))
        draft.restart_session(member)


def may_downgrade_without(
    group: ConsumerGroup, context: DecisionContext, leaving: Collection[str]
) -> bool:
    """Whether the group is to be a classic one once the members with these ids are gone."""
    others = [member for id_, member in group.members.items() if id_ not in leaving]
    return (
        bool(others)
        and all(member.uses_classic_protocol for member in others)
        and not all(group.members[member_id].uses_classic_protocol for member_id in leaving)
        and context.settings.group_consumer_migration_policy in DOWNGRADES
        and len(others) <= context.settings.group_max_size
        and _fit_one_record(others)
    )


def downgrade(
    group: ConsumerGroup, context: DecisionContext, *, without: Collection[str], reply: object
) -> Decided:
    """The others form a classic group, which rebalances."""
    draft = ClassicDraft(_as_classic(group, context, without=without), context)
    draft.store()
    for member_id in draft.group.members:
        draft.restart_session(member_id)
    prepare_rebalance(draft)
    decision = draft.decision_with(reply)
    return replace(
        decision,
        records=(*ended_records(group), *decision.records),
        volatile=(*changes_after_consumer_end(group), *decision.volatile),
    )


def has_become_classic(group: ConsumerGroup, draft: Draft) -> bool:
    """Whether the last member of the consumer protocol has come back, as a static member, with the
    classic protocol, so that the group becomes a classic one.
    """
    settings = draft.context.settings
    return (
        any(not member.uses_classic_protocol for member in group.members.values())
        and all(member.uses_classic_protocol for member in draft.group.members.values())
        and settings.group_consumer_migration_policy in DOWNGRADES
        and len(draft.group.members) <= settings.group_max_size
        and _fit_one_record(draft.group.members.values())
    )


def replaced_by_classic(
    group: ConsumerGroup, draft: Draft, reply: JoinGroupResponse, *, ticket: int
) -> Decided:
    """The members as they are in the draft form a classic group; `reply` is for the one that joins.

    Where all own what the target assigns to them, there is no rebalance. Otherwise the join waits
    for one: a classic group does not know of partitions that are being handed over.
    """
    classic = ClassicDraft(_as_classic(draft.group, draft.context, without=()), draft.context)
    classic.store()
    for member_id in classic.group.members:
        classic.restart_session(member_id)
    if draft.group.is_settled:
        reply.generation_id = classic.group.generation
        reply.protocol_name = classic.group.protocol_name
        decision = classic.decision_with(reply)
    else:
        classic.park_join(reply.member_id, ticket)
        prepare_rebalance(classic)
        decision = classic.decision(ticket)
    return replace(
        decision,
        records=(*ended_records(group), *decision.records),
        volatile=(*changes_after_consumer_end(group), *decision.volatile),
    )


def ended_records(group: ConsumerGroup) -> tuple[GroupRecord, ...]:
    """The tombstones of the whole group; that of the group itself comes last."""
    name = group.group_id
    return (
        *(ConsumerCurrentStored(group=name, member=id_, value=None) for id_ in group.members),
        *(ConsumerTargetMemberStored(group=name, member=id_, value=None) for id_ in group.target),
        ConsumerTargetStored(group=name, value=None),
        *(ConsumerMemberStored(group=name, member=id_, value=None) for id_ in group.members),
        *(ConsumerRegexStored(group=name, regex=regex, value=None) for regex in group.regexes),
        ConsumerGroupStored(group=name, value=None),
    )


def changes_after_consumer_end(group: ConsumerGroup) -> tuple[CancelDeadline, ...]:
    """The deadlines that a group which ends, or becomes another kind of group, leaves behind."""
    name = group.group_id
    return tuple(
        CancelDeadline(key=kind(group=name, member=member_id))
        for member_id in group.members
        for kind in (SessionEnds, RevocationEnds, MemberJoinEnds, MemberSyncEnds)
    )


def encoded_assignment(
    partitions: Mapping[TopicIdPartition, object] | frozenset[TopicIdPartition],
    image: Image,
    *,
    metadata: bytes,
) -> bytes:
    """An assignment as classic members read it, in the version of their own metadata."""
    version = int.from_bytes(metadata[:VERSION_BYTES], "big", signed=True)
    known = ConsumerProtocolAssignment.VERSIONS
    topics = [
        TopicPartitions(topic=image.topics_by_id[topic_id].name, partitions=numbers)
        for topic_id, numbers in by_topic(partitions).items()
        if topic_id in image.topics_by_id
    ]
    return write_embedded(
        ConsumerProtocolAssignment(assigned_partitions=topics),
        version=max(known.min, min(version, known.max)),
    )


def partitions_of(topics: list[TopicPartitions], image: Image) -> list[TopicIdPartition]:
    """Partitions by the ids of their topics; topics that do not exist are left out."""
    return [
        TopicIdPartition(image.topics_by_name[topic.topic].topic_id, partition)
        for topic in topics
        if topic.topic in image.topics_by_name
        for partition in topic.partitions
    ]


def _fit_one_record(members: Iterable[ConsumerMember]) -> bool:
    """A classic group is stored whole, with what its members tell each other. Members that tell
    too much for that stay in a consumer group, which stores each by itself.
    """
    told_bytes = sum(
        len(protocol.metadata)
        for member in members
        if member.classic is not None
        for protocol in member.classic.protocols
    )
    return told_bytes <= TOLD_BYTES_MAX


def _upgraded_members(group: ClassicGroup, image: Image) -> list[ConsumerMember]:
    try:
        subscriptions = {
            member_id: _subscription(member, group) for member_id, member in group.members.items()
        }
        owners = _owners(group, subscriptions, image)
    except MalformedMessage as error:
        raise RequestError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group.group_id} to consumer group because the "
            "embedded consumer protocol is malformed.",
        ) from error
    owned: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in group.members}
    for partition, member_id in owners.items():
        owned[member_id].append(partition)
    return [
        _upgraded(
            member, subscriptions[member_id], owned[member_id], epoch=max(group.generation, 0)
        )
        for member_id, member in group.members.items()
    ]


def _subscription(member: ClassicMember, group: ClassicGroup) -> ConsumerProtocolSubscription:
    name = group.protocol_name or member.protocol_names[0]
    return read_embedded(ConsumerProtocolSubscription, member.metadata(name))


def _owners(
    group: ClassicGroup, subscriptions: Mapping[str, ConsumerProtocolSubscription], image: Image
) -> dict[TopicIdPartition, str]:
    """The member that owns each partition, one at most: clients assigned among themselves, and
    nothing is certain.

    In the middle of a rebalance a cooperative member goes on with what it reported to own when it
    joined, also where it has no assignment, or one that it has not been told. What it has given up
    since then is free as soon as it joins again. Of two such reports the later one counts.
    """
    owners: dict[TopicIdPartition, str] = {}
    for member_id, member in group.members.items():
        if member.assignment:
            assignment = read_embedded(ConsumerProtocolAssignment, member.assignment)
            for partition in partitions_of(assignment.assigned_partitions, image):
                owners.setdefault(partition, member_id)
    latest_first = sorted(subscriptions.items(), key=lambda told: -told[1].generation_id)
    for member_id, subscription in latest_first:
        for partition in partitions_of(subscription.owned_partitions, image):
            owners.setdefault(partition, member_id)
    return owners


def _upgraded(
    member: ClassicMember,
    subscription: ConsumerProtocolSubscription,
    owned: list[TopicIdPartition],
    *,
    epoch: int,
) -> ConsumerMember:
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicSide(
            session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
        ),
        epoch=epoch,
        previous_epoch=epoch,
        assigned=dict.fromkeys(owned, epoch),
    )


def _end_classic(draft: Draft, group: ClassicGroup) -> None:
    """Parked requests of the classic group are answered so that the members rejoin."""
    ended = ClassicGroupStored(group=group.group_id, value=None)
    draft.replaces((ended,), changes_after_end(group))
    for member in group.members.values():
        if member.join_ticket is not None:
            reply = join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            draft.deliver(Deliver(ticket=member.join_ticket, reply=reply))
        if member.sync_ticket is not None:
            refused = sync_refused(ErrorCode.REBALANCE_IN_PROGRESS)
            draft.deliver(Deliver(ticket=member.sync_ticket, reply=refused))


def _as_classic(
    group: ConsumerGroup, context: DecisionContext, *, without: Collection[str]
) -> ClassicGroup:
    classic = ClassicGroup(
        group_id=group.group_id,
        state=ClassicState.STABLE,
        state_since_ms=context.now_ms,
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
    )
    for member_id, member in group.members.items():
        if member_id not in without:
            assert member.classic is not None
            classic.add(
                ClassicMember(
                    member_id=member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    session_timeout_ms=member.classic.session_timeout_ms,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    protocols=member.classic.protocols,
                ),
                protocol_type=CONSUMER_PROTOCOL_TYPE,
            )
    classic.protocol_name = classic.elected_protocol()
    for member_id, joined in tuple(classic.members.items()):
        assignment = encoded_assignment(
            group.target.get(member_id, frozenset()),
            context.image,
            metadata=joined.metadata(classic.protocol_name),
        )
        classic.change(replace(joined, assignment=assignment))
    return classic
