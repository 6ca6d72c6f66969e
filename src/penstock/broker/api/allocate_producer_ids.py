"""AllocateProducerIds: a broker gets a block of producer ids for its clients."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import ControllerServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


def handle(
    services: ControllerServices, request: AllocateProducerIdsRequest, context: RequestContext
) -> Awaitable[AllocateProducerIdsResponse]:
    return services.local.ask(request, connection=context.peer)


def refuse(
    request: AllocateProducerIdsRequest, code: ErrorCode, message: str | None
) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code)


API = Api(
    key=ApiKey.ALLOCATE_PRODUCER_IDS,
    versions=AllocateProducerIdsRequest.VERSIONS,
    request=AllocateProducerIdsRequest,
    handle=handle,
    refuse=refuse,
)
