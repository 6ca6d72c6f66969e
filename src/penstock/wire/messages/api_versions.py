"""ApiVersions: which versions of which APIs a broker serves, and its feature levels.

Its replies keep header version 0 in every version, so that a client that asked in a version unknown
to the broker can still read the answer.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    tagged,
)


class ApiVersionsRequest(Message, key=ApiKey.API_VERSIONS, versions="0-4", flexible_from=3):
    client_software_name: str = string("3+")
    client_software_version: str = string("3+")


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Struct):
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


class ApiVersionsResponse(Message, key=ApiKey.API_VERSIONS, versions="0-4", flexible_from=3):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeatureKey] = tagged(0, array(SupportedFeatureKey, "3+"))
    finalized_features_epoch: int = tagged(1, int64("3+", default=-1))
    finalized_features: list[FinalizedFeatureKey] = tagged(2, array(FinalizedFeatureKey, "3+"))
    zk_migration_ready: bool = tagged(3, boolean("3+"))
