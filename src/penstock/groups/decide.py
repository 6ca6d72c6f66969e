"""The group coordinator's tables of requests and of deadlines: start here."""

from collections.abc import Callable, Mapping
from typing import Any, assert_never

from penstock.groups.changes import CancelDeadline
from penstock.groups.classic.describe import describe, describe_absent
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.classic.heartbeat import decide_heartbeat
from penstock.groups.classic.join import decide_join
from penstock.groups.classic.leave import decide_leave
from penstock.groups.classic.replies import sync_refused
from penstock.groups.classic.sync import (
    decide_sync,
    decide_sync_not_stored,
    names_its_protocol,
)
from penstock.groups.classic.timeouts import (
    decide_join_ended,
    decide_pending_member_ended,
    decide_session_ended,
    decide_sync_ended,
)
from penstock.groups.consumer import classic_members
from penstock.groups.consumer import describe as consumer_describe
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.heartbeat import decide_heartbeat as decide_consumer_heartbeat
from penstock.groups.consumer.leave import decide_leave_group
from penstock.groups.consumer.timeouts import decide_time_up
from penstock.groups.decision_context import DecisionContext
from penstock.groups.listing import list_groups
from penstock.groups.offsets.commit import decide_commit
from penstock.groups.offsets.delete import (
    DeleteGroup,
    ForgetTopics,
    decide_delete_group,
    decide_delete_offsets,
    decide_deletion_goes_on,
    decide_forget_topics,
)
from penstock.groups.offsets.deletion import refuse_while_deleted
from penstock.groups.offsets.expiry import decide_expiry
from penstock.groups.offsets.fetch import decide_fetch
from penstock.groups.offsets.transactional import (
    EndTransaction,
    FetchStableOffsets,
    decide_end,
    decide_transactional_commit,
    mark_unstable,
)
from penstock.groups.records import GroupRecord
from penstock.groups.requests import Asked, DescribeConsumerGroup, DescribeGroup, NotStored
from penstock.groups.shard import GroupShard
from penstock.groups.timers import (
    DeletionGoesOn,
    JoinEnds,
    MemberJoinEnds,
    MemberSyncEnds,
    OffsetsExpire,
    PendingMemberEnds,
    RevocationEnds,
    SessionEnds,
    SyncEnds,
)
from penstock.machine.decision import Decision
from penstock.model.error import ErrorCode
from penstock.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.messages.heartbeat import HeartbeatRequest
from penstock.wire.messages.join_group import JoinGroupRequest
from penstock.wire.messages.leave_group import LeaveGroupRequest
from penstock.wire.messages.list_groups import ListGroupsRequest
from penstock.wire.messages.offset_commit import OffsetCommitRequest
from penstock.wire.messages.offset_delete import OffsetDeleteRequest
from penstock.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from penstock.wire.messages.sync_group import SyncGroupRequest
from penstock.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

Decided = Decision[GroupRecord, object]
Decide = Callable[[GroupShard, DecisionContext, Asked[Any]], Decided]


def decide(shard: GroupShard, context: DecisionContext, asked: Asked[object]) -> Decided:
    """The coordinator's decision about a request. Errors are in the reply."""
    if shard.deletions:
        refused = refuse_while_deleted(shard.deletions, asked)
        if refused is not None:
            return Decision.refuse(refused)
    return _TABLE[type(asked.request)](shard, context, asked)


def decide_due(shard: GroupShard, context: DecisionContext) -> Decided | None:
    """The decision about the earliest deadline that has passed; None when there is none."""
    key = shard.deadlines.due(context.monotonic_ms)
    if key is None:
        return None
    if isinstance(key, OffsetsExpire):
        return decide_expiry(shard.groups, shard.offsets, shard.pending, shard.expiry_left, context)
    group = shard.groups.get(key.group)
    if isinstance(key, DeletionGoesOn):
        ticket = shard.deletions[key.group]
        return decide_deletion_goes_on(
            shard.offsets, shard.pending, group, context, key, ticket=ticket
        )
    classic = group if isinstance(group, ClassicGroup) else None
    match key:
        case SessionEnds() | RevocationEnds() | MemberJoinEnds() | MemberSyncEnds() if isinstance(
            group, ConsumerGroup
        ):
            return decide_time_up(group, context, key)
        case SessionEnds():
            return decide_session_ended(classic, context, key)
        case PendingMemberEnds():
            return decide_pending_member_ended(classic, context, key)
        case JoinEnds():
            return decide_join_ended(classic, context, key)
        case SyncEnds():
            return decide_sync_ended(classic, context, key)
        case RevocationEnds() | MemberJoinEnds() | MemberSyncEnds():
            return Decision(reply=None, volatile=(CancelDeadline(key=key),))
        case _:
            assert_never(key)


def _join(shard: GroupShard, context: DecisionContext, asked: Asked[JoinGroupRequest]) -> Decided:
    group = shard.groups.get(asked.request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.decide_join(group, context, asked)
    return decide_join(group, context, asked)


def _sync(shard: GroupShard, context: DecisionContext, asked: Asked[SyncGroupRequest]) -> Decided:
    if not names_its_protocol(asked):
        return Decision.refuse(sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    group = shard.groups.get(asked.request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.decide_sync(group, context, asked, shard.deadlines)
    return decide_sync(group, context, asked)


def _heartbeat(
    shard: GroupShard, context: DecisionContext, asked: Asked[HeartbeatRequest]
) -> Decided:
    group = shard.groups.get(asked.request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.decide_heartbeat(group, context, asked, shard.deadlines)
    return decide_heartbeat(group, context, asked)


def _leave(shard: GroupShard, context: DecisionContext, asked: Asked[LeaveGroupRequest]) -> Decided:
    group = shard.groups.get(asked.request.group_id)
    if isinstance(group, ConsumerGroup):
        return decide_leave_group(group, context, asked)
    return decide_leave(group, context, asked)


def _describe(shard: GroupShard, context: DecisionContext, asked: Asked[DescribeGroup]) -> Decided:
    name = asked.request.group
    group = shard.groups.get(name)
    if isinstance(group, ClassicGroup):
        return Decision(reply=describe(group))
    not_found = f"Group {name} not found."
    why = not_found if group is None else f"Group {name} is not a classic group."
    return Decision(reply=describe_absent(name, version=asked.version, why=why))


def _consumer_heartbeat(
    shard: GroupShard, context: DecisionContext, asked: Asked[ConsumerGroupHeartbeatRequest]
) -> Decided:
    return decide_consumer_heartbeat(shard.groups.get(asked.request.group_id), context, asked)


def _describe_consumer(
    shard: GroupShard, context: DecisionContext, asked: Asked[DescribeConsumerGroup]
) -> Decided:
    name = asked.request.group
    group = shard.groups.get(name)
    if isinstance(group, ConsumerGroup):
        return Decision(reply=consumer_describe.describe(group, context))
    not_found = f"Group {name} not found."
    why = not_found if group is None else f"Group {name} is not a consumer group."
    return Decision(reply=consumer_describe.describe_absent(name, why=why))


def _not_stored(shard: GroupShard, context: DecisionContext, asked: Asked[NotStored]) -> Decided:
    failed = asked.request
    if not isinstance(failed.request, SyncGroupRequest):
        return Decision(reply=None)  # nobody else waits for what this request would have done
    group = shard.groups.get(failed.request.group_id)
    return decide_sync_not_stored(
        group if isinstance(group, ClassicGroup) else None,
        context,
        generation=failed.request.generation_id,
        code=failed.code,
    )


def _commit(
    shard: GroupShard, context: DecisionContext, asked: Asked[OffsetCommitRequest]
) -> Decided:
    return decide_commit(shard.groups.get(asked.request.group_id), context, asked)


def _fetch(
    shard: GroupShard, context: DecisionContext, asked: Asked[OffsetFetchRequestGroup]
) -> Decided:
    group = shard.groups.get(asked.request.group_id)
    return decide_fetch(shard.offsets, group, context, asked)


def _fetch_stable(
    shard: GroupShard, context: DecisionContext, asked: Asked[FetchStableOffsets]
) -> Decided:
    fetching = Asked(
        request=asked.request.request,
        version=asked.version,
        ticket=asked.ticket,
        client_id=asked.client_id,
        client_host=asked.client_host,
    )
    decided = _fetch(shard, context, fetching)
    assert isinstance(decided.reply, OffsetFetchResponseGroup)
    mark_unstable(decided.reply, shard.pending, context)
    return decided


def _commit_in_transaction(
    shard: GroupShard, context: DecisionContext, asked: Asked[TxnOffsetCommitRequest]
) -> Decided:
    return decide_transactional_commit(shard.groups.get(asked.request.group_id), context, asked)


def _end_transaction(
    shard: GroupShard, context: DecisionContext, asked: Asked[EndTransaction]
) -> Decided:
    return decide_end(asked.request)


def _delete_offsets(
    shard: GroupShard, context: DecisionContext, asked: Asked[OffsetDeleteRequest]
) -> Decided:
    group = shard.groups.get(asked.request.group_id)
    return decide_delete_offsets(shard.offsets, shard.pending, group, context, asked)


def _delete_group(
    shard: GroupShard, context: DecisionContext, asked: Asked[DeleteGroup]
) -> Decided:
    group = shard.groups.get(asked.request.group)
    under_way = asked.request.group in shard.deletions
    return decide_delete_group(
        shard.offsets, shard.pending, group, context, asked, under_way=under_way
    )


def _forget_topics(
    shard: GroupShard, context: DecisionContext, asked: Asked[ForgetTopics]
) -> Decided:
    return decide_forget_topics(shard.offsets, shard.pending, asked.request)


def _list(shard: GroupShard, context: DecisionContext, asked: Asked[ListGroupsRequest]) -> Decided:
    return Decision(reply=list_groups(shard.groups.values(), asked.request))


_TABLE: Mapping[type[object], Decide] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: _sync,
    HeartbeatRequest: _heartbeat,
    LeaveGroupRequest: _leave,
    DescribeGroup: _describe,
    ConsumerGroupHeartbeatRequest: _consumer_heartbeat,
    DescribeConsumerGroup: _describe_consumer,
    NotStored: _not_stored,
    OffsetCommitRequest: _commit,
    OffsetFetchRequestGroup: _fetch,
    FetchStableOffsets: _fetch_stable,
    TxnOffsetCommitRequest: _commit_in_transaction,
    EndTransaction: _end_transaction,
    OffsetDeleteRequest: _delete_offsets,
    DeleteGroup: _delete_group,
    ForgetTopics: _forget_topics,
    ListGroupsRequest: _list,
}
