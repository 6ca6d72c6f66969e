"""FetchSnapshot: a part of a snapshot of the metadata log, for a replica that is far behind."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.quorum_requests import ask_quorum
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.raft.messages import FetchSnapshotReply
from penstock.raft.wire_form import fetch_snapshot
from penstock.wire.api import ApiKey
from penstock.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse


def handle(
    services: NodeServices, request: FetchSnapshotRequest, context: RequestContext
) -> Awaitable[FetchSnapshotResponse]:
    return ask_quorum(
        services,
        lambda: fetch_snapshot.request_from_wire(request, cluster_id=services.cluster_id),
        FetchSnapshotReply,
        _respond,
    )


def refuse(
    request: FetchSnapshotRequest, code: ErrorCode, message: str | None
) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(error_code=code)


def _respond(reply: FetchSnapshotReply) -> FetchSnapshotResponse:
    data = reply.data if isinstance(reply.data, bytes) else b""
    return fetch_snapshot.reply_to_wire(reply, data=data)


API = Api(
    key=ApiKey.FETCH_SNAPSHOT,
    versions=FetchSnapshotRequest.VERSIONS,
    request=FetchSnapshotRequest,
    handle=handle,
    refuse=refuse,
)
