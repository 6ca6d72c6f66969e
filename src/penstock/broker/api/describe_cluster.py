"""DescribeCluster: the cluster's id, its brokers, and whom to ask for changes.

A listener of brokers tells the brokers, one of controllers the controllers (KIP-919).
"""

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
    """On a broker's listener."""
    _refuse_other_type(request, BROKERS)
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
        cluster_authorized_operations=_operations(request),
    )


def describe_controllers(
    services: NodeServices, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    """On a controller's listener; the active controller is the one that is asked for changes."""
    _refuse_other_type(request, CONTROLLERS)
    active = services.quorum.replica.leader_id
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=services.cluster_id,
        controller_id=NO_NODE if active is None else active,
        brokers=[
            DescribeClusterBroker(broker_id=node_id, host=address.host, port=address.port)
            for node_id, address in sorted(services.quorum.member.addresses.items())
        ],
        cluster_authorized_operations=_operations(request),
    )


def refuse(
    request: DescribeClusterRequest, code: ErrorCode, message: str | None
) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=code, error_message=message, endpoint_type=request.endpoint_type
    )


def _refuse_other_type(request: DescribeClusterRequest, own: int) -> None:
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


def _operations(request: DescribeClusterRequest) -> int:
    asked = request.include_cluster_authorized_operations
    return CLUSTER_OPERATIONS if asked else NOT_ASKED_FOR


NO_NODE = -1
NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}
API = Api(
    key=ApiKey.DESCRIBE_CLUSTER,
    versions=DescribeClusterRequest.VERSIONS,
    request=DescribeClusterRequest,
    handle=handle,
    refuse=refuse,
)
OF_CONTROLLERS = Api(
    key=ApiKey.DESCRIBE_CLUSTER,
    versions=DescribeClusterRequest.VERSIONS,
    request=DescribeClusterRequest,
    handle=describe_controllers,
    refuse=refuse,
)
