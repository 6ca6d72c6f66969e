"""RemoveRaftVoter: a voter becomes an observer (KIP-853). The leader can remove itself."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.broker.request.voter_requests import change_voters, check_request
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.raft.voters import ReplicaKey
from penstock.wire.api import ApiKey
from penstock.wire.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)


def handle(
    services: NodeServices, request: RemoveRaftVoterRequest, context: RequestContext
) -> Awaitable[RemoveRaftVoterResponse]:
    check_request(services, request.cluster_id, None)
    if services.quorum.replica.leads:
        return _remove(services, request)
    return services.controller.forward(
        request, RemoveRaftVoterResponse, requester=context.requester
    )


async def _remove(
    services: NodeServices, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    key = ReplicaKey(NodeId(request.voter_id), request.voter_directory_id)
    await change_voters(services, lambda replica, now_ms: replica.remove_voter(key, now_ms))
    return RemoveRaftVoterResponse()


def refuse(
    request: RemoveRaftVoterRequest, code: ErrorCode, message: str | None
) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=code, error_message=message)


API = Api(
    key=ApiKey.REMOVE_RAFT_VOTER,
    versions=RemoveRaftVoterRequest.VERSIONS,
    request=RemoveRaftVoterRequest,
    handle=handle,
    refuse=refuse,
)
