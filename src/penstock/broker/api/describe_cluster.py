"""DescribeCluster: the cluster's id, its brokers, and whom to ask for changes.

A listener of controllers tells the controllers instead (`describe_controllers`).
"""

from penstock.broker.request.admin_broker import admin_broker
from penstock.broker.request.api_table import Api
from penstock.broker.request.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED_FOR
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
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
    refuse_other_type(request, BROKERS)
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
        controller_id=admin_broker(
            services.node_id, [broker.broker_id for broker in brokers if not broker.is_fenced]
        ),
        brokers=brokers,
        cluster_authorized_operations=operations(request),
    )


def refuse(
    request: DescribeClusterRequest, code: ErrorCode, message: str | None
) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=code, error_message=message, endpoint_type=request.endpoint_type
    )


def refuse_other_type(request: DescribeClusterRequest, own: int) -> None:
    asked = request.endpoint_type
    if asked not in NAMES:
        raise RequestError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}"
        )
    if asked != own:
        raise RequestError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            f"The request was sent to an endpoint of type {NAMES[own]}, "
            f"but we wanted an endpoint of type {NAMES[asked]}",
        )


def operations(request: DescribeClusterRequest) -> int:
    asked = request.include_cluster_authorized_operations
    return CLUSTER_OPERATIONS if asked else NOT_ASKED_FOR


NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}
API = Api(
    key=ApiKey.DESCRIBE_CLUSTER,
    versions=DescribeClusterRequest.VERSIONS,
    request=DescribeClusterRequest,
    handle=handle,
    refuse=refuse,
)
