"""ExpireDelegationToken: a token counts for a time from now on, or no more (KIP-48)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, int16, int32, int64, octets


class ExpireDelegationTokenRequest(
    Message, key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="1-2", flexible_from=2
):
    hmac: bytes = octets()
    expiry_time_period_ms: int = int64()  # -1: it is removed at once


class ExpireDelegationTokenResponse(
    Message, key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="1-2", flexible_from=2
):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
