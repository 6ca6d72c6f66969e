"""ListConfigResources: who has a configuration (KIP-1142).

Version 0 was ListClientMetricsResources: it asks for client metrics alone, and its reply does not
say so.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, Struct, array, int8, int16, int32, string


class ListConfigResourcesRequest(
    Message, key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible_from=0
):
    resource_types: list[int] = array(int8(), "1+")


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8("1+", default=16)


class ListConfigResourcesResponse(
    Message, key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
