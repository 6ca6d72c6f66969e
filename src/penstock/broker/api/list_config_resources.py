"""ListConfigResources: topics, brokers, groups and client metrics, for DescribeConfigs."""

from collections.abc import Awaitable, Collection

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.broker.request.yielding import Steps, by_turns
from penstock.metadata.config_resources import config_resources
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode, RequestError
from penstock.wire.api import ApiKey
from penstock.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

RESOURCE_TYPES_FROM = 1  # of the request's versions


def handle(
    services: Services, request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse | Awaitable[ListConfigResourcesResponse]:
    kinds = _kinds(request, version=context.header.api_version)
    return by_turns(_list(services, kinds, listener=context.listener), services.long_answers)


def refuse(
    request: ListConfigResourcesRequest, code: ErrorCode, message: str | None
) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=code)


def _kinds(request: ListConfigResourcesRequest, *, version: int) -> Collection[ResourceKind]:
    """No types at all ask for every kind that there is."""
    if version < RESOURCE_TYPES_FROM:
        return (ResourceKind.CLIENT_METRICS,)
    try:
        return {ResourceKind(number) for number in request.resource_types} or tuple(ResourceKind)
    except ValueError as unknown:
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION, str(unknown)) from unknown


def _list(
    services: Services, kinds: Collection[ResourceKind], *, listener: str
) -> Steps[ListConfigResourcesResponse]:
    found = []
    for resource in config_resources(services.image, kinds, listener=listener):
        found.append(ConfigResource(resource_name=resource.name, resource_type=int(resource.kind)))
        yield
    return ListConfigResourcesResponse(config_resources=found)


API = Api(
    key=ApiKey.LIST_CONFIG_RESOURCES,
    versions=ListConfigResourcesRequest.VERSIONS,
    request=ListConfigResourcesRequest,
    handle=handle,
    refuse=refuse,
)
