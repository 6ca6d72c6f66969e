"""UpdateFeatures: the levels of finalised features change (KIP-584).

Version 1 can try without changing, and tells safe from unsafe downgrades (KIP-778). From version 2
on the reply has no results per feature: all change or none.
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
    prose,
    string,
)


class FeatureUpdateKey(Struct):
    feature: str = string()
    max_version_level: int = int16()  # less than 1 removes the feature
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)  # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade


class UpdateFeaturesRequest(Message, key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible_from=0):
    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+")


class UpdatableFeatureResult(Struct):
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = prose()


class UpdateFeaturesResponse(Message, key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1")
