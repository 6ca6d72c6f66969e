"""DescribeConfigs: the settings of topics, groups, client metrics and this broker, and where
each value comes from.

A few bytes name a topic and its settings are many kilobytes: what is named twice is answered once.
"""

from collections.abc import Awaitable, Iterable, Sequence

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.broker.request.yielding import Steps, by_turns
from penstock.metadata.config_resources import UNSUPPORTED
from penstock.metadata.describe import (
    Described,
    Standpoint,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
    describe_topic_defaults,
)
from penstock.metadata.image.image import Image
from penstock.model.configs import ResourceKind, Source
from penstock.model.error import ErrorCode, RequestError
from penstock.model.limit import DESCRIBED_SETTINGS_MAX
from penstock.model.topic_name import topic_name_error
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(
    services: NodeServices, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]:
    return by_turns(_describe_all(services, request), services.long_answers)


def refuse(
    request: DescribeConfigsRequest, code: ErrorCode, message: str | None
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_refused(resource, code, message) for resource in request.resources]
    )


def _describe_all(
    services: NodeServices, request: DescribeConfigsRequest
) -> Steps[DescribeConfigsResponse]:
    image = services.image
    standpoint = Standpoint(metadata=image, static=services.settings, node_id=services.node_id)
    defaults = describe_topic_defaults(standpoint)
    told = 0
    results = []
    for resource in _each_once(request.resources):
        yield
        if told > DESCRIBED_SETTINGS_MAX:
            message = f"More than {DESCRIBED_SETTINGS_MAX} settings in one reply"
            results.append(_refused(resource, ErrorCode.INVALID_REQUEST, message))
            continue
        try:
            found = _describe(image, standpoint, defaults, resource)
        except RequestError as error:
            results.append(_refused(resource, error.code, error.message))
        else:
            result = _result(request, resource, found)
            results.append(result)
            told += len(result.configs)
            for _ in result.configs:
                yield
    return DescribeConfigsResponse(results=results)


def _each_once(resources: Iterable[DescribeConfigsResource]) -> Iterable[DescribeConfigsResource]:
    return {
        (one.resource_type, one.resource_name, frozenset(one.configuration_keys or ())): one
        for one in resources
    }.values()


def _result(
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    found: Iterable[Described],
) -> DescribeConfigsResult:
    keys = frozenset(resource.configuration_keys or ())
    return DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            _config(described, request) for described in found if not keys or described.name in keys
        ],
    )


def _describe(
    image: Image,
    standpoint: Standpoint,
    defaults: Sequence[Described],
    resource: DescribeConfigsResource,
) -> Iterable[Described]:
    name = resource.resource_name
    if resource.resource_type == ResourceKind.TOPIC:
        error = topic_name_error(name)
        if error is not None:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
        if name not in image.topics_by_name:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(image.config(ResourceKind.TOPIC, name), defaults)
    if resource.resource_type == ResourceKind.BROKER:
        if not name:
            return describe_cluster_default(image)
        if name != str(standpoint.node_id):
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {standpoint.node_id} or empty string, "
                f"but received {name}",
            )
        return describe_broker(standpoint)
    if resource.resource_type == ResourceKind.GROUP:
        if not name:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(standpoint, name)
    if resource.resource_type == ResourceKind.CLIENT_METRICS:
        if not name:
            message = "Client metrics subscription name must not be empty"
            raise RequestError(ErrorCode.INVALID_REQUEST, message)
        return describe_client_metrics(image.config(ResourceKind.CLIENT_METRICS, name))
    unknown = f"Unsupported resource type: {resource.resource_type}"
    raise RequestError(ErrorCode.INVALID_REQUEST, UNSUPPORTED.get(resource.resource_type, unknown))


def _config(described: Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=described.name,
        value=described.value,
        read_only=described.read_only,
        is_default=described.source == Source.DEFAULT,
        config_source=described.source,
        is_sensitive=described.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in described.synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=described.type,
        documentation=described.doc if request.include_documentation else None,
    )


def _refused(
    resource: DescribeConfigsResource, code: ErrorCode, message: str | None
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


API = Api(
    key=ApiKey.DESCRIBE_CONFIGS,
    versions=DescribeConfigsRequest.VERSIONS,
    request=DescribeConfigsRequest,
    handle=handle,
    refuse=refuse,
)
