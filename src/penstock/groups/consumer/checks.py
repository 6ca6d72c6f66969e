"""Checks of requests and of the members they come from: those of Kafka.

Heartbeats are refused with a RequestError, which `decide_heartbeat` turns into the reply; the
checks of offsets return a code, since each API answers in its own form.
"""

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.consumer.group import ConsumerGroup, ConsumerState
from penstock.groups.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
)
from penstock.groups.consumer.reconcile import Partitions
from penstock.groups.requests import Asked
from penstock.model.error import ErrorCode, RequestError
from penstock.model.settings.groups import GroupSettings
from penstock.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

CONSUMER_PROTOCOL = "consumer"  # among the protocols by which groups may rebalance
MEMBER_ID_FROM_CLIENT_FROM = 1  # of the versions of ConsumerGroupHeartbeat
MEMBER_EPOCH_IN_COMMIT_FROM = 9  # of the versions of OffsetCommit


def check_heartbeat(asked: Asked[ConsumerGroupHeartbeatRequest], settings: GroupSettings) -> None:
    """RequestError for a request that is invalid for any group."""
    request, epoch = asked.request, asked.request.member_epoch
    assignors = settings.group_consumer_assignors
    if CONSUMER_PROTOCOL not in settings.group_coordinator_rebalance_protocols:
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
    from_client = asked.version >= MEMBER_ID_FROM_CLIENT_FROM
    if not request.member_id and (from_client or epoch != JOINING_EPOCH):
        raise _invalid("MemberId can't be empty.")
    if not request.group_id:
        raise _invalid("GroupId can't be empty.")
    if request.instance_id == "":
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id == "":
        raise _invalid("RackId can't be empty.")
    if epoch == JOINING_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVING_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise RequestError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def check_epoch(member: ConsumerMember, epoch: int, reported: Partitions | None) -> None:
    """A member that lost the reply with its last epoch may send the epoch before, as long as it
    owns no more than it was assigned; any other epoch is fenced. A member that joins again owns
    nothing.
    """
    if epoch == member.epoch or epoch == JOINING_EPOCH:
        return
    if epoch > member.epoch:
        raise RequestError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a greater member epoch ({epoch}) than the one known "
            f"by the group coordinator ({member.epoch}). The member must abandon all its "
            "partitions and rejoin.",
        )
    owns_no_more = reported is not None and all(
        member.epoch_of(partition) is not None for partition in reported
    )
    if epoch != member.previous_epoch or not owns_no_more:
        raise RequestError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a smaller member epoch ({epoch}) than the one known "
            f"by the group coordinator ({member.epoch}). The member must abandon all its "
            "partitions and rejoin.",
        )


def known_member(
    group: ConsumerGroup, *, member_id: str, instance_id: str | None
) -> ConsumerMember:
    """The member with this id, or static member with this instance id. RequestError if there is
    none.
    """
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise RequestError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {group.group_id}.",
            )
        return member
    member = group.static_member(instance_id)
    if member is None:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if not member_id:  # see groups/classic/checks
        raise RequestError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"A member with instance id {instance_id} gave no id."
        )
    if member.member_id != member_id:
        raise RequestError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def check_offset_commit(
    group: ConsumerGroup,
    *,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    transactional: bool,
    version: int,
) -> ErrorCode:
    """Whether the request may commit at all; `check_partition_commit` checks each partition.

    A request without an epoch comes from a tool or from a consumer with manual assignment: then the
    group must be empty. Transactional commits may have no member id.
    """
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    if transactional and epoch == -1 and not member_id and instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    speaks_late = not member.uses_classic_protocol and version < MEMBER_EPOCH_IN_COMMIT_FROM
    if speaks_late and not transactional:
        return ErrorCode.UNSUPPORTED_VERSION
    return _stale(member) if epoch > member.epoch else ErrorCode.NONE


def check_partition_commit(
    group: ConsumerGroup, *, member_id: str, epoch: int, partition: TopicIdPartition
) -> ErrorCode:
    """After `check_offset_commit`: a member with an older epoch may still commit for partitions
    that it has owned since that epoch; others may have belonged to another member then.
    """
    member = group.members.get(member_id)
    if member is None or epoch == member.epoch:
        return ErrorCode.NONE
    since = member.epoch_of(partition)
    return ErrorCode.NONE if since is not None and since <= epoch else _stale(member)


def check_offset_fetch(group: ConsumerGroup, *, member_id: str | None, epoch: int) -> ErrorCode:
    """Tools and older clients send neither member id nor epoch."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else _stale(member)


def check_group_delete(group: ConsumerGroup) -> ErrorCode:
    if group.state is ConsumerState.EMPTY:
        return ErrorCode.NONE
    return ErrorCode.NON_EMPTY_GROUP


def is_leaving(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )


def _stale(member: ConsumerMember) -> ErrorCode:
    if member.uses_classic_protocol:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH


def _invalid(message: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, message)
