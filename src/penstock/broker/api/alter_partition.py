"""AlterPartition: the leader of a partition asks the controller for another in-sync set."""

from collections.abc import Awaitable

from penstock.broker.controller.controller_link import check_entries
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import ControllerServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


def handle(
    services: ControllerServices, request: AlterPartitionRequest, context: RequestContext
) -> Awaitable[AlterPartitionResponse]:
    check_entries(sum(len(topic.partitions) for topic in request.topics))
    return services.local.ask(request, connection=context.peer)


def refuse(
    request: AlterPartitionRequest, code: ErrorCode, message: str | None
) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=code)


API = Api(
    key=ApiKey.ALTER_PARTITION,
    versions=AlterPartitionRequest.VERSIONS,
    request=AlterPartitionRequest,
    handle=handle,
    refuse=refuse,
)
