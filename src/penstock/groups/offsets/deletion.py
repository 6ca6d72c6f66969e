"""Deletes a group with more offsets than fit into one batch in several steps, each by a deadline.

The request is parked until the last step. Between two steps, requests to join the group, to commit
or to fetch offsets get a retriable error, so that no member joins a group that has lost a part of
its offsets. A failover forgets that the group was being deleted; the client that asked gets an
error, and can delete the rest of the group again.
"""

from collections.abc import Container
from typing import NamedTuple

from penstock.groups.classic.replies import join_refused
from penstock.groups.offsets.commit import refuse_commit
from penstock.groups.offsets.transactional import (
    FetchStableOffsets,
    refuse_transactional_commit,
)
from penstock.groups.requests import Asked
from penstock.model.error import ErrorCode
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.wire.messages.join_group import JoinGroupRequest
from penstock.wire.messages.offset_commit import OffsetCommitRequest
from penstock.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from penstock.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

LATER = ErrorCode.COORDINATOR_NOT_AVAILABLE


class DeletionBegan(NamedTuple):
    """The first of several steps is done; the request of this ticket is answered with the last."""

    group: str
    ticket: int


class DeletionEnded(NamedTuple):
    group: str


def refuse_while_deleted(groups: Container[str], asked: Asked[object]) -> object | None:
    """The refusal of a request that would join, change or read one of these groups; else None."""
    match asked.request:
        case JoinGroupRequest() as joining if joining.group_id in groups:
            return join_refused(LATER, joining.member_id)
        case ConsumerGroupHeartbeatRequest() as beating if beating.group_id in groups:
            return ConsumerGroupHeartbeatResponse(error_code=LATER)
        case OffsetCommitRequest() as committing if committing.group_id in groups:
            return refuse_commit(committing, LATER)
        case (OffsetFetchRequestGroup() as fetching) | FetchStableOffsets(request=fetching) if (
            fetching.group_id in groups
        ):
            return OffsetFetchResponseGroup(group_id=fetching.group_id, error_code=LATER)
        case TxnOffsetCommitRequest() as committing_later if committing_later.group_id in groups:
            return refuse_transactional_commit(committing_later, LATER)
        case _:
            return None
