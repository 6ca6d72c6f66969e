"""BeginQuorumEpoch: a leader of the quorum tells its epoch to this voter."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.quorum_requests import ask_quorum
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.raft.messages import BeginEpochReply
from penstock.raft.wire_form import begin_epoch
from penstock.wire.api import ApiKey
from penstock.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)


def handle(
    services: NodeServices, request: BeginQuorumEpochRequest, context: RequestContext
) -> Awaitable[BeginQuorumEpochResponse]:
    return ask_quorum(
        services,
        lambda: begin_epoch.request_from_wire(
            request, cluster_id=services.cluster_id, receiver_id=services.node_id
        ),
        BeginEpochReply,
        begin_epoch.reply_to_wire,
    )


def refuse(
    request: BeginQuorumEpochRequest, code: ErrorCode, message: str | None
) -> BeginQuorumEpochResponse:
    return BeginQuorumEpochResponse(error_code=code)


API = Api(
    key=ApiKey.BEGIN_QUORUM_EPOCH,
    versions=BeginQuorumEpochRequest.VERSIONS,
    request=BeginQuorumEpochRequest,
    handle=handle,
    refuse=refuse,
)
