"""EndQuorumEpoch: a leader of the quorum tells this voter that it has resigned."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.quorum_requests import ask_quorum
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.raft.messages import EndEpochReply
from penstock.raft.wire_form import end_epoch
from penstock.wire.api import ApiKey
from penstock.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse


def handle(
    services: NodeServices, request: EndQuorumEpochRequest, context: RequestContext
) -> Awaitable[EndQuorumEpochResponse]:
    return ask_quorum(
        services,
        lambda: end_epoch.request_from_wire(request, cluster_id=services.cluster_id),
        EndEpochReply,
        end_epoch.reply_to_wire,
    )


def refuse(
    request: EndQuorumEpochRequest, code: ErrorCode, message: str | None
) -> EndQuorumEpochResponse:
    return EndQuorumEpochResponse(error_code=code)


API = Api(
    key=ApiKey.END_QUORUM_EPOCH,
    versions=EndQuorumEpochRequest.VERSIONS,
    request=EndQuorumEpochRequest,
    handle=handle,
    refuse=refuse,
)
