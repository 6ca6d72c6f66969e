"""DescribeClientQuotas: the bounds of single users, clients and addresses (KIP-546)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    nullable,
    prose,
    string,
)


class QuotaFilterComponent(Struct):
    entity_type: str = string()
    match_type: int = int8()  # 0 exact name, 1 the default's, 2 any that is named
    match: str | None = nullable(string())


class DescribeClientQuotasRequest(
    Message, key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible_from=1
):
    components: list[QuotaFilterComponent] = array(QuotaFilterComponent)
    strict: bool = boolean()


class QuotaEntity(Struct):
    entity_type: str = string()
    entity_name: str | None = nullable(string())


class QuotaValue(Struct):
    key: str = string()
    value: float = float64()


class QuotaEntry(Struct):
    entity: list[QuotaEntity] = array(QuotaEntity)
    values: list[QuotaValue] = array(QuotaValue)


class DescribeClientQuotasResponse(
    Message, key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible_from=1
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()
    entries: list[QuotaEntry] | None = nullable(array(QuotaEntry))
