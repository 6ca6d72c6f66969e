"""ListPartitionReassignments: which partitions move to other brokers, as the controller knows it.

This broker's own image may lag behind, and whoever has just cancelled a reassignment on another
broker would still find it.
"""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    services: NodeServices, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> Awaitable[ListPartitionReassignmentsResponse]:
    return services.controller.ask(
        request, wait_ms_max=request.timeout_ms, requester=context.requester
    )


def refuse(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message)


API = Api(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    versions=ListPartitionReassignmentsRequest.VERSIONS,
    request=ListPartitionReassignmentsRequest,
    handle=handle,
    refuse=refuse,
)
