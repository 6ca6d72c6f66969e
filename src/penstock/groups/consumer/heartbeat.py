"""ConsumerGroupHeartbeat: a member joins, reports changes, and gets its assignment.

Start at `decide_heartbeat`. Joining and leaving are heartbeats with special epochs. A member sends
everything when it joins and after a request without a reply, and otherwise only what has changed;
the reply has its assignment when that has changed, when the member has sent everything, and when
its epoch is not the current one.
"""

from dataclasses import replace

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.consumer.admission import admit, group_to_join
from penstock.groups.consumer.advance import advance
from penstock.groups.consumer.checks import check_epoch, check_heartbeat, is_leaving, known_member
from penstock.groups.consumer.draft import Decided, Draft
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.heartbeat_interval import heartbeat_interval_ms
from penstock.groups.consumer.leave import decide_leave
from penstock.groups.consumer.member import JOINING_EPOCH, ConsumerMember
from penstock.groups.consumer.reconcile import LastReply, Partitions
from penstock.groups.consumer.stored import by_topic
from penstock.groups.decision_context import DecisionContext
from penstock.groups.requests import Asked
from penstock.groups.timers import MemberJoinEnds, MemberSyncEnds
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import TopicId
from penstock.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

Heartbeat = Asked[ConsumerGroupHeartbeatRequest]


def decide_heartbeat(
    group: ClassicGroup | ConsumerGroup | None, context: DecisionContext, asked: Heartbeat
) -> Decided:
    try:
        check_heartbeat(asked, context.settings)
        if is_leaving(asked.request):
            return decide_leave(group, context, asked)
        return _stay(group, context, asked)
    except RequestError as refusal:
        reply = ConsumerGroupHeartbeatResponse(
            error_code=refusal.code, error_message=refusal.message
        )
        return Decision.refuse(reply)


def _stay(
    group: ClassicGroup | ConsumerGroup | None, context: DecisionContext, asked: Heartbeat
) -> Decided:
    request = asked.request
    reported = reported_partitions(request)
    if request.member_epoch == JOINING_EPOCH:
        draft = group_to_join(group, context, request.group_id)
        member = admit(
            draft,
            member_id=request.member_id or context.fresh_id(),
            instance_id=request.instance_id,
            uses_classic_protocol=False,
        )
    elif isinstance(group, ConsumerGroup):
        draft = Draft(group, context)
        member = known_member(group, member_id=request.member_id, instance_id=request.instance_id)
        check_epoch(member, request.member_epoch, reported)
    else:
        message = f"Consumer group {request.group_id} not found."
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, message)
    assigned_before = member.assigned.keys()
    last_reply = _last_reply(member, request)
    if member.uses_classic_protocol:
        # It has changed its protocol: no classic request of it is expected any more.
        draft.cancel(MemberJoinEnds(group=request.group_id, member=member.member_id))
        draft.cancel(MemberSyncEnds(group=request.group_id, member=member.member_id))
    member = advance(draft, _updated(member, asked), reported=reported, last_reply=last_reply)
    draft.restart_session(member)
    reply = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(
            request.group_id, is_settled=draft.group.is_settled, context=context
        ),
    )
    if last_reply is not LastReply.RECEIVED or member.assigned.keys() != assigned_before:
        reply.assignment = assignment_of(member)
    return draft.decision(reply)


def reported_partitions(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return frozenset(
        TopicIdPartition(TopicId(bytes(topic.topic_id)), partition)
        for topic in request.topic_partitions
        for partition in topic.partitions
    )


def assignment_of(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(member.assigned).items()
        ]
    )


def _updated(member: ConsumerMember, asked: Heartbeat) -> ConsumerMember:
    """The member with the fields of the request; fields that are left out have not changed."""
    request = asked.request
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    unchanged_timeout = request.rebalance_timeout_ms == -1
    return replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack_id=request.rack_id or member.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if unchanged_timeout else request.rebalance_timeout_ms
        ),
        topics=member.topics if names is None else tuple(sorted(set(names))),
        regex=member.regex if regex is None else regex,
        assignor=request.server_assignor or member.assignor,
        client_id=asked.client_id,
        client_host=asked.client_host,
        classic=None,
    )


def _last_reply(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> LastReply:
    if request.member_epoch == JOINING_EPOCH:
        return LastReply.VOID
    if request.member_epoch != member.epoch:
        return LastReply.LOST
    return LastReply.UNCERTAIN if _reports_everything(request) else LastReply.RECEIVED


def _reports_everything(request: ConsumerGroupHeartbeatRequest) -> bool:
    return (
        request.rebalance_timeout_ms != -1
        and not (request.subscribed_topic_names is None and request.subscribed_topic_regex is None)
        and request.topic_partitions is not None
    )
