"""IncrementalAlterConfigs: sets, removes or edits single settings of a resource (KIP-339)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    nullable,
    prose,
    string,
)


class AlterableConfig(Struct):
    name: str = string()
    config_operation: int = int8()
    value: str | None = nullable(string())


class AlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class IncrementalAlterConfigsRequest(
    Message, key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible_from=1
):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = prose()
    resource_type: int = int8()
    resource_name: str = string()


class IncrementalAlterConfigsResponse(
    Message, key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible_from=1
):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
