"""OffsetCommit: how far a group has read, kept by its coordinator."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.groups.offsets.commit import refuse_commit
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


def handle(
    services: Services, request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    reply: OffsetCommitResponse | Awaitable[OffsetCommitResponse] = services.groups.ask_once_loaded(
        request.group_id, request, context
    )
    return reply


def refuse(
    request: OffsetCommitRequest, code: ErrorCode, message: str | None
) -> OffsetCommitResponse:
    return refuse_commit(request, code)


API = Api(
    key=ApiKey.OFFSET_COMMIT,
    versions=OffsetCommitRequest.VERSIONS,
    request=OffsetCommitRequest,
    handle=handle,
    refuse=refuse,
)
