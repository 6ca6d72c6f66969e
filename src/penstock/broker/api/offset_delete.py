"""OffsetDelete: a group forgets offsets of topics that none of its members reads."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def handle(
    services: Services, request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    reply: OffsetDeleteResponse | Awaitable[OffsetDeleteResponse] = services.groups.ask(
        request.group_id, request, context
    )
    return reply


def refuse(
    request: OffsetDeleteRequest, code: ErrorCode, message: str | None
) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code)


API = Api(
    key=ApiKey.OFFSET_DELETE,
    versions=OffsetDeleteRequest.VERSIONS,
    request=OffsetDeleteRequest,
    handle=handle,
    refuse=refuse,
)
