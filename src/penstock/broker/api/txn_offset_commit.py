"""TxnOffsetCommit: how far a group has read, as part of a transaction.

Like a produce to the partition of the group's offsets, it is verified with the coordinator of the
transaction first; from version 5 on it adds that partition.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.broker.coordinators import verification
from penstock.broker.coordinators.verification import Verification
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.groups.offsets.transactional import refuse_transactional_commit
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.replication.partition import Partition
from penstock.transactions.enlist import Enlisted
from penstock.transactions.state import Identity
from penstock.wire.api import ApiKey
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

ABORTABLE_FROM = 4
ADDS_FROM = 5
# Errors of the transaction's coordinator, or on the way to it.
ASKED_AGAIN = {ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION, *verification.BEHIND}


def handle(
    services: Services, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Its coordinators are asked before what comes behind it is decided."""
    if not request.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID)
    index = services.groups.index_of(request.group_id)
    partition = services.partitions.find(OFFSETS_TOPIC, index)
    if not isinstance(partition, Partition):
        raise RequestError(ErrorCode.NOT_COORDINATOR)
    producer = Identity(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch))
    verified = Verification()
    version = context.header.api_version
    verified.add(partition, producer, sequence=0, adds=version >= ADDS_FROM)
    answer: Enlisted | RequestError | asyncio.Future[Any] | None = None
    if verified.asked:
        answer = verification.ask(
            services.transactions,
            verified,
            transactional_id=request.transactional_id,
            verify_only=version < ADDS_FROM,
        )
    if isinstance(answer, asyncio.Future):
        release = _release_with_connection(verified)
        return _commit_once_verified(services, request, context, verified, answer, release)
    try:
        return _commit(services, request, context, verified, answer)
    finally:
        verified.release()


def refuse(
    request: TxnOffsetCommitRequest, code: ErrorCode, message: str | None
) -> TxnOffsetCommitResponse:
    return refuse_transactional_commit(request, code)


async def _commit_once_verified(
    services: Services,
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    verified: Verification,
    waiting: asyncio.Future[Any],
    release: Callable[[], None],
) -> TxnOffsetCommitResponse:
    try:
        answer = await verification.outcome_of(waiting)
        reply = _commit(services, request, context, verified, answer)
    finally:
        release()
    return reply if isinstance(reply, TxnOffsetCommitResponse) else await reply


def _commit(
    services: Services,
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    verified: Verification,
    answer: Enlisted | RequestError | None,
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """`answer` is what the transaction's coordinator said, if it was asked."""
    if answer is not None:
        _require_part(verified, answer, version=context.header.api_version)
    if any(verified.ended()):
        raise RequestError(ErrorCode.NOT_COORDINATOR)
    [(partition, _)] = verified.led
    # Checked in the step of the commit: a marker may have come meanwhile.
    partition.require_transaction(
        ProducerId(request.producer_id),
        epoch=request.producer_epoch,
        guard=verified.guards[partition.name],
    )
    reply: TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse] = services.groups.ask(
        request.group_id, request, context
    )
    return reply


def _release_with_connection(verified: Verification) -> Callable[[], None]:
    """Releases once, with its connection at the latest: the task of a reply that is cancelled
    before its first step runs nothing of its coroutine, not even a `finally`.
    """
    connection = asyncio.current_task()
    assert connection is not None, "a request belongs to a connection"
    released = False

    def release(_ended: object = None) -> None:
        nonlocal released
        if not released:
            released = True
            connection.remove_done_callback(release)
            verified.release()

    connection.add_done_callback(release)
    return release


def _require_part(verified: Verification, answer: Enlisted | RequestError, *, version: int) -> None:
    """RequestError when the group's offsets are not part of the transaction."""
    [partition] = verified.asked
    code = verification.code_of(verified, partition, answer)
    code = verification.in_words_of_writers(code, abortable=version >= ABORTABLE_FROM)
    if code in ASKED_AGAIN:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # that of the group is found
    if code is not ErrorCode.NONE:
        raise RequestError(code)


API = Api(
    key=ApiKey.TXN_OFFSET_COMMIT,
    versions=TxnOffsetCommitRequest.VERSIONS,
    request=TxnOffsetCommitRequest,
    handle=handle,
    refuse=refuse,
)
