"""FindCoordinator: groups and transactions have no coordinator here; clients are told at once."""

from penstock.broker.api_table import Api
from penstock.broker.services import RequestContext, Services
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.api import ApiKey
from penstock.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

KEY_TYPES = (0, 1, 2)  # a group, a transaction, a share group
NO_NODE = -1
NO_PORT = -1


def handle(
    services: Services, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    if request.key_type not in KEY_TYPES:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"Unknown coordinator type {request.key_type}"
        )
    return refuse(
        request,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "This broker does not coordinate groups or transactions.",
    )


def refuse(
    request: FindCoordinatorRequest, code: ErrorCode, message: str | None
) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=code,
        error_message=message,
        node_id=NO_NODE,
        host="",
        port=NO_PORT,
        coordinators=[
            Coordinator(
                key=key,
                node_id=NO_NODE,
                host="",
                port=NO_PORT,
                error_code=code,
                error_message=message,
            )
            for key in request.coordinator_keys
        ],
    )


API = Api(
    key=ApiKey.FIND_COORDINATOR,
    versions=FindCoordinatorRequest.VERSIONS,
    request=FindCoordinatorRequest,
    handle=handle,
    refuse=refuse,
)
