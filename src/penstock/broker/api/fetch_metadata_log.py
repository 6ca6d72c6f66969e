"""Fetch on a controller's listener: the metadata log, for replicas of it.

Versions from 17 on name the fetching replica by directory id as well.
"""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.quorum_requests import ask_quorum
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.raft.messages import FetchReply
from penstock.raft.wire_form import fetch
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.messages.fetch import FetchRequest, FetchResponse, NodeEndpoint


def handle(
    services: NodeServices, request: FetchRequest, context: RequestContext
) -> Awaitable[FetchResponse]:
    def respond(reply: FetchReply) -> FetchResponse:
        records = reply.records if isinstance(reply.records, bytes) else b""
        quorum = services.quorum
        response = fetch.reply_to_wire(
            reply, records=records, log_start_offset=quorum.log_start_offset
        )
        leader_id = reply.leader_id
        address = None if leader_id is None else quorum.leader_address(leader_id)
        if leader_id is not None and address is not None:
            response.node_endpoints.append(
                NodeEndpoint(node_id=leader_id, host=address.host, port=address.port)
            )
        return response

    return ask_quorum(
        services,
        lambda: fetch.request_from_wire(request, cluster_id=services.cluster_id),
        FetchReply,
        respond,
        connection=context.peer,
    )


def refuse(request: FetchRequest, code: ErrorCode, message: str | None) -> FetchResponse:
    return FetchResponse(error_code=code)


API = Api(
    key=ApiKey.FETCH,
    versions=VersionRange(fetch.VERSION_MIN, FetchRequest.VERSIONS.max),
    request=FetchRequest,
    handle=handle,
    refuse=refuse,
)
