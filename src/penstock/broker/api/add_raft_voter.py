"""AddRaftVoter: an observer that has caught up becomes a voter (KIP-853)."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.broker.request.voter_requests import change_voters, check_request
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.raft.voters import ReplicaKey
from penstock.raft.wire_form.voters import details_of
from penstock.wire.api import ApiKey
from penstock.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def handle(
    services: NodeServices, request: AddRaftVoterRequest, context: RequestContext
) -> Awaitable[AddRaftVoterResponse]:
    check_request(services, request.cluster_id, request.listeners)
    if services.quorum.replica.leads:
        return _add(services, request)
    wait_ms = request.timeout_ms
    return services.controller.forward(
        request, AddRaftVoterResponse, wait_ms_max=wait_ms, requester=context.requester
    )


async def _add(services: NodeServices, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    key = ReplicaKey(NodeId(request.voter_id), request.voter_directory_id)
    details = details_of(request.listeners)
    await change_voters(
        services,
        lambda replica, now_ms: replica.add_voter(key, details, now_ms),
        wait_ms_max=request.timeout_ms,
        until_committed=request.ack_when_committed,
    )
    return AddRaftVoterResponse()


def refuse(
    request: AddRaftVoterRequest, code: ErrorCode, message: str | None
) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=code, error_message=message)


API = Api(
    key=ApiKey.ADD_RAFT_VOTER,
    versions=AddRaftVoterRequest.VERSIONS,
    request=AddRaftVoterRequest,
    handle=handle,
    refuse=refuse,
)
