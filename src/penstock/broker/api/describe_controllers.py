"""DescribeCluster on a controller's listener (KIP-919): the controllers, and the active one."""

from penstock.broker.api.describe_cluster import operations, refuse, refuse_other_type
from penstock.broker.request.api_table import Api
from penstock.broker.request.services import NodeServices, RequestContext
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_cluster import (
    CONTROLLERS,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

NO_NODE = -1


def handle(
    services: NodeServices, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    refuse_other_type(request, CONTROLLERS)
    active = services.quorum.replica.leader_id
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=services.cluster_id,
        controller_id=NO_NODE if active is None else active,
        brokers=[
            DescribeClusterBroker(broker_id=node_id, host=address.host, port=address.port)
            for node_id in services.quorum.voters.node_ids
            if (address := services.quorum.address_of(node_id)) is not None
        ],
        cluster_authorized_operations=operations(request),
    )


API = Api(
    key=ApiKey.DESCRIBE_CLUSTER,
    versions=DescribeClusterRequest.VERSIONS,
    request=DescribeClusterRequest,
    handle=handle,
    refuse=refuse,
)
