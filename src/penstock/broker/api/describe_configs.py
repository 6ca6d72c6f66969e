"""DescribeConfigs: the settings of topics and of this broker, and where each value comes from."""

from collections.abc import Sequence

from penstock.broker.api_table import Api
from penstock.broker.services import RequestContext, Services
from penstock.metadata.describe import (
    Described,
    Source,
    Standpoint,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from penstock.metadata.image.image import ResourceKind
from penstock.model.error import ErrorCode, RequestError
from penstock.model.topic_name import topic_name_trouble
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
    services: Services, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_result(services, request, resource) for resource in request.resources]
    )


def refuse(
    request: DescribeConfigsRequest, code: ErrorCode, message: str | None
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_refused(resource, code, message) for resource in request.resources]
    )


def _result(
    services: Services, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    try:
        found = _describe(services, resource)
    except RequestError as trouble:
        return _refused(resource, trouble.code, trouble.message)
    keys = resource.configuration_keys
    return DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            _config(described, request) for described in found if not keys or described.name in keys
        ],
    )


def _describe(services: Services, resource: DescribeConfigsResource) -> Sequence[Described]:
    image = services.image
    standpoint = Standpoint(image=image, static=services.settings, node_id=services.node_id)
    name = resource.resource_name
    if resource.resource_type == ResourceKind.TOPIC:
        trouble = topic_name_trouble(name)
        if trouble is not None:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, trouble)
        if name not in image.topics_by_name:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(image.config(ResourceKind.TOPIC, name), standpoint)
    if resource.resource_type == ResourceKind.BROKER:
        if not name:
            return describe_cluster_default(image)
        if name != str(services.node_id):
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {services.node_id} or empty string, "
                f"but received {name}",
            )
        return describe_broker(standpoint)
    raise RequestError(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"
    )


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
