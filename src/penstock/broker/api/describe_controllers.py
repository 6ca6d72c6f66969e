"""DescribeCluster on a controller's listener (KIP-919): the controllers, and the active one.

While none is known, as after the removal of the one that was asked, the reply waits. Java's client
would take "none" for the answer, and ask nobody again until its call times out.
"""

import asyncio

from penstock.broker.api.describe_cluster import operations, refuse, refuse_other_type
from penstock.broker.controller.local_controller import LocalController
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import ControllerServices
from penstock.model.identity import NodeId
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_cluster import (
    CONTROLLERS,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

NO_NODE = NodeId(-1)
ELECTION_WAIT_S_MAX = 3  # longer than a removed leader takes to find the next one


async def handle(
    services: ControllerServices, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    refuse_other_type(request, CONTROLLERS)
    active = await _active(services.local)
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=services.cluster_id,
        controller_id=active,
        brokers=[
            DescribeClusterBroker(broker_id=node_id, host=address.host, port=address.port)
            for node_id in services.quorum.voters.node_ids
            if (address := services.quorum.address_of(node_id)) is not None
        ],
        cluster_authorized_operations=operations(request),
    )


async def _active(local: LocalController) -> NodeId:
    if local.leader_id is None:
        try:
            await asyncio.wait_for(_election(local), ELECTION_WAIT_S_MAX)
        except TimeoutError:
            return NO_NODE
    return NO_NODE if local.leader_id is None else local.leader_id


async def _election(local: LocalController) -> None:
    while local.leader_id is None:
        await local.change()


API = Api(
    key=ApiKey.DESCRIBE_CLUSTER,
    versions=DescribeClusterRequest.VERSIONS,
    request=DescribeClusterRequest,
    handle=handle,
    refuse=refuse,
)
