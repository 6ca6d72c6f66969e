"""DescribeQuorum on a broker's listener: the leader of the quorum is asked, if it is elsewhere."""

from collections.abc import Awaitable

from penstock.broker.api import describe_quorum
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse


def handle(
    services: NodeServices, request: DescribeQuorumRequest, context: RequestContext
) -> DescribeQuorumResponse | Awaitable[DescribeQuorumResponse]:
    if services.quorum.describe() is not None:
        return describe_quorum.handle(services, request, context)
    return services.controller.forward(request, DescribeQuorumResponse, requester=context.requester)


API = Api(
    key=ApiKey.DESCRIBE_QUORUM,
    versions=DescribeQuorumRequest.VERSIONS,
    request=DescribeQuorumRequest,
    handle=handle,
    refuse=describe_quorum.refuse,
)
