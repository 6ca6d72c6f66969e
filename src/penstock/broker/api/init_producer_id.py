"""InitProducerId: an id for an idempotent producer, or the next epoch of a transactional one.

Who joins a two-phase commit needs the setting that allows it (`transactions/begin`). Where
access is controlled, it also needs TWO_PHASE_COMMIT on the transactional id, beside WRITE.
"""

from collections.abc import Awaitable

from penstock.broker.coordinators.fencing_log import Client
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode, RequestError
from penstock.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.wire.api import ApiKey
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(
    services: Services, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise RequestError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise RequestError(ErrorCode.INVALID_REQUEST)
        reply: InitProducerIdResponse | Awaitable[InitProducerIdResponse] = (
            services.transactions.ask(
                request.transactional_id,
                request,
                version=context.header.api_version,
                client=Client(context.header, context.peer),
            )
        )
        if request.keep_prepared_txn:
            return _once_writer_stopped(services, request.transactional_id, reply)
        return reply
    return _fresh(services)


def refuse(
    request: InitProducerIdRequest, code: ErrorCode, message: str | None
) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


async def _once_writer_stopped(
    services: Services,
    transactional_id: str,
    reply: InitProducerIdResponse | Awaitable[InitProducerIdResponse],
) -> InitProducerIdResponse:
    """Whoever takes over a prepared transaction is told so when nobody writes in it any more. Until
    then it asks again.
    """
    response = reply if isinstance(reply, InitProducerIdResponse) else await reply
    is_kept = response.ongoing_txn_producer_id != NO_PRODUCER_ID
    if is_kept and not await services.transactions.stop_writer_elsewhere(transactional_id):
        raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return response


async def _fresh(services: Services) -> InitProducerIdResponse:
    producer_id = await services.producer_ids.next()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


API = Api(
    key=ApiKey.INIT_PRODUCER_ID,
    versions=InitProducerIdRequest.VERSIONS,
    request=InitProducerIdRequest,
    handle=handle,
    refuse=refuse,
)
