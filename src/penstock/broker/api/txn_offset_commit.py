"""TxnOffsetCommit: how far a group has read, as part of a transaction.

Like a produce to the partition of the group's offsets, it is verified with the coordinator of the
transaction first; from version 5 on it adds that partition.
"""

import asyncio

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


async def handle(
    services: Services, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse:
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
    try:
        if verified.asked:
            await _verify(services, request, verified, version=version)
        if any(verified.ended()):
            raise RequestError(ErrorCode.NOT_COORDINATOR)
        # Checked in the step of the commit: a marker may have come meanwhile.
        partition.require_transaction(
            producer.producer_id, epoch=producer.epoch, guard=verified.guards[partition.name]
        )
        reply = services.groups.ask(request.group_id, request, context)
    finally:
        verified.release()
    answer: TxnOffsetCommitResponse = await reply if isinstance(reply, asyncio.Future) else reply
    return answer


def refuse(
    request: TxnOffsetCommitRequest, code: ErrorCode, message: str | None
) -> TxnOffsetCommitResponse:
    return refuse_transactional_commit(request, code)


async def _verify(
    services: Services, request: TxnOffsetCommitRequest, verified: Verification, *, version: int
) -> None:
    """RequestError when the group's offsets are not part of the transaction."""
    answer = verification.ask(
        services.transactions,
        verified,
        transactional_id=request.transactional_id,
        verify_only=version < ADDS_FROM,
    )
    if isinstance(answer, asyncio.Future):
        answer = await verification.outcome_of(answer)
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
