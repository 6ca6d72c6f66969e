"""AssignReplicasToDirs: a broker tells in which of its log directories its replicas are."""

from collections.abc import Awaitable

from penstock.broker.controller.controller_link import check_entries
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import ControllerServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


def handle(
    services: ControllerServices, request: AssignReplicasToDirsRequest, context: RequestContext
) -> Awaitable[AssignReplicasToDirsResponse]:
    check_entries(
        sum(len(topic.partitions) for part in request.directories for topic in part.topics)
    )
    return services.local.ask(request, connection=context.peer)


def refuse(
    request: AssignReplicasToDirsRequest, code: ErrorCode, message: str | None
) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(error_code=code)


API = Api(
    key=ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    versions=AssignReplicasToDirsRequest.VERSIONS,
    request=AssignReplicasToDirsRequest,
    handle=handle,
    refuse=refuse,
)
