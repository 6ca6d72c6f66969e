"""DescribeConfigs: the settings of topics and brokers, and where each value comes from."""

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


class DescribeConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = nullable(array(string()))


class DescribeConfigsRequest(Message, key=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible_from=4):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


class DescribeConfigsSynonym(Struct):
    name: str = string()
    value: str | None = nullable(string())
    source: int = int8()


class DescribeConfigsResourceResult(Struct):
    name: str = string()
    value: str | None = nullable(string())
    read_only: bool = boolean()
    is_default: bool = boolean("0")
    config_source: int = int8("1+", default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+")
    config_type: int = int8("3+")
    documentation: str | None = nullable(string("3+"))


class DescribeConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = prose()
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(
    Message, key=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible_from=4
):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
