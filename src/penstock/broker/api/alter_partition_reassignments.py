"""AlterPartitionReassignments: an operator moves partitions to other brokers, or stops that; the
controller decides.
"""

from collections.abc import Awaitable

from penstock.broker.controller.controller_link import check_entries
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(
    services: NodeServices, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Awaitable[AlterPartitionReassignmentsResponse]:
    check_entries(sum(len(topic.partitions) for topic in request.topics))
    return services.controller.ask(
        request, wait_ms_max=request.timeout_ms, requester=context.requester
    )


def refuse(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=code,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=code,
                        error_message=message,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


API = Api(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    versions=AlterPartitionReassignmentsRequest.VERSIONS,
    request=AlterPartitionReassignmentsRequest,
    handle=handle,
    refuse=refuse,
)
