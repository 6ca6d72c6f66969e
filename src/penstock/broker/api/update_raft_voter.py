"""UpdateRaftVoter: a voter says where it listens, and which kraft.version it supports (KIP-853)."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.broker.request.voter_requests import change_voters, check_request
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.raft.voters import ReplicaKey
from penstock.raft.wire_form.voters import details_of
from penstock.wire.api import ApiKey
from penstock.wire.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)


def handle(
    services: NodeServices, request: UpdateRaftVoterRequest, context: RequestContext
) -> Awaitable[UpdateRaftVoterResponse]:
    check_request(services, request.cluster_id, request.listeners)
    replica = services.quorum.replica
    if request.current_leader_epoch < replica.epoch:
        raise RequestError(ErrorCode.FENCED_LEADER_EPOCH)
    if request.current_leader_epoch > replica.epoch:
        raise RequestError(ErrorCode.UNKNOWN_LEADER_EPOCH)
    if not replica.leads:
        raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return _update(services, request)


async def _update(
    services: NodeServices, request: UpdateRaftVoterRequest
) -> UpdateRaftVoterResponse:
    key = ReplicaKey(NodeId(request.voter_id), request.voter_directory_id)
    details = details_of(request.listeners, request.k_raft_version_feature)
    await change_voters(
        services, lambda replica, now_ms: replica.update_voter(key, details, now_ms)
    )
    return UpdateRaftVoterResponse()


def refuse(
    request: UpdateRaftVoterRequest, code: ErrorCode, message: str | None
) -> UpdateRaftVoterResponse:
    return UpdateRaftVoterResponse(error_code=code)


API = Api(
    key=ApiKey.UPDATE_RAFT_VOTER,
    versions=UpdateRaftVoterRequest.VERSIONS,
    request=UpdateRaftVoterRequest,
    handle=handle,
    refuse=refuse,
)
