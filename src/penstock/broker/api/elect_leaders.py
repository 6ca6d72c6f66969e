"""ElectLeaders: an operator lets partitions elect a leader; the controller decides."""

from collections.abc import Awaitable

from penstock.broker.controller.controller_link import check_entries
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.elect_leaders import (
    ElectedPartition,
    ElectedTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
)


def handle(
    services: NodeServices, request: ElectLeadersRequest, context: RequestContext
) -> Awaitable[ElectLeadersResponse]:
    check_entries(sum(len(topic.partitions) for topic in request.topic_partitions or ()))
    return services.controller.ask(
        request, wait_ms_max=request.timeout_ms, requester=context.requester
    )


def refuse(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ElectedTopic(
                topic=topic.topic,
                partition_result=[
                    ElectedPartition(partition_id=index, error_code=code, error_message=message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


API = Api(
    key=ApiKey.ELECT_LEADERS,
    versions=ElectLeadersRequest.VERSIONS,
    request=ElectLeadersRequest,
    handle=handle,
    refuse=refuse,
)
