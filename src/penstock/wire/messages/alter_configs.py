"""AlterConfigs: replaces all settings of a resource. `incremental_alter_configs` changes single
ones.
"""

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
    value: str | None = nullable(string())


class AlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class AlterConfigsRequest(Message, key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible_from=2):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = prose()
    resource_type: int = int8()
    resource_name: str = string()


class AlterConfigsResponse(Message, key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible_from=2):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
