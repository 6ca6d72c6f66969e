"""DescribeCluster: the cluster's id, its brokers, and whom to ask for changes."""

from penstock.broker.request.api_table import Api
from penstock.broker.request.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED_FOR
from penstock.broker.request.services import NodeServices, RequestContext
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_cluster import (
    BROKERS,
    CONTROLLERS,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)


def handle(
    services: NodeServices, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    if request.endpoint_type not in (BROKERS, CONTROLLERS):
        raise RequestError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Unsupported endpoint type {request.endpoint_type}",
        )
    if request.endpoint_type == CONTROLLERS:
        raise RequestError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        )
    brokers = []
    for broker in services.image.brokers.values():
        endpoint = broker.endpoint(context.listener)
        if endpoint is not None and (request.include_fenced_brokers or not broker.fenced):
            brokers.append(
                DescribeClusterBroker(
                    broker_id=broker.node_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                    is_fenced=broker.fenced,
                )
            )
    return DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
        brokers=brokers,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED_FOR,
    )


def refuse(
    request: DescribeClusterRequest, code: ErrorCode, message: str | None
) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=code, error_message=message, endpoint_type=request.endpoint_type
    )


API = Api(
    key=ApiKey.DESCRIBE_CLUSTER,
    versions=DescribeClusterRequest.VERSIONS,
    request=DescribeClusterRequest,
    handle=handle,
    refuse=refuse,
)
