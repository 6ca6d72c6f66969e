"""Vote: another replica of the metadata log asks for this one's vote."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.quorum_requests import ask_quorum
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.raft.messages import VoteReply
from penstock.raft.wire_form import vote
from penstock.wire.api import ApiKey
from penstock.wire.messages.vote import VoteRequest, VoteResponse


def handle(
    services: NodeServices, request: VoteRequest, context: RequestContext
) -> Awaitable[VoteResponse]:
    return ask_quorum(
        services,
        lambda: vote.request_from_wire(
            request, cluster_id=services.cluster_id, receiver_id=services.node_id
        ),
        VoteReply,
        vote.reply_to_wire,
    )


def refuse(request: VoteRequest, code: ErrorCode, message: str | None) -> VoteResponse:
    return VoteResponse(error_code=code)


API = Api(
    key=ApiKey.VOTE,
    versions=VoteRequest.VERSIONS,
    request=VoteRequest,
    handle=handle,
    refuse=refuse,
)
