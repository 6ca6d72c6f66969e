"""AddOffsetsToTxn: the group whose offsets a transaction is about to commit."""

from collections.abc import Awaitable

from penstock.broker.coordinators.fencing_log import Client
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.transactions.enlist import Enlisted, enlistment_of_offsets
from penstock.wire.api import ApiKey
from penstock.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)


def handle(
    services: Services, request: AddOffsetsToTxnRequest, context: RequestContext
) -> Awaitable[AddOffsetsToTxnResponse]:
    """Decided at once, before what comes behind it, but for the first in a cluster."""
    if not services.groups.has_topic:
        return _once_there_is_a_topic(services, request, context)
    return _enlisted(_ask(services, request, context))


async def _once_there_is_a_topic(
    services: Services, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse:
    await services.groups.create_topic()
    return await _enlisted(_ask(services, request, context))


def _ask(
    services: Services, request: AddOffsetsToTxnRequest, context: RequestContext
) -> Enlisted | Awaitable[Enlisted]:
    partition = TopicPartition(OFFSETS_TOPIC, services.groups.index_of(request.group_id))
    asked = enlistment_of_offsets(request, partition=partition)
    reply: Enlisted | Awaitable[Enlisted] = services.transactions.ask(
        request.transactional_id,
        asked,
        version=context.header.api_version,
        client=Client(context.header, context.peer),
    )
    return reply


async def _enlisted(reply: Enlisted | Awaitable[Enlisted]) -> AddOffsetsToTxnResponse:
    enlisted = reply if isinstance(reply, Enlisted) else await reply
    return AddOffsetsToTxnResponse(error_code=enlisted.error)


def refuse(
    request: AddOffsetsToTxnRequest, code: ErrorCode, message: str | None
) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=code)


API = Api(
    key=ApiKey.ADD_OFFSETS_TO_TXN,
    versions=AddOffsetsToTxnRequest.VERSIONS,
    request=AddOffsetsToTxnRequest,
    handle=handle,
    refuse=refuse,
)
