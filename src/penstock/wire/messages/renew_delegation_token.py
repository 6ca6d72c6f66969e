"""RenewDelegationToken: a token counts for longer (KIP-48)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, int16, int32, int64, octets


class RenewDelegationTokenRequest(
    Message, key=ApiKey.RENEW_DELEGATION_TOKEN, versions="1-2", flexible_from=2
):
    hmac: bytes = octets()
    renew_period_ms: int = int64()  # -1: as the settings have it


class RenewDelegationTokenResponse(
    Message, key=ApiKey.RENEW_DELEGATION_TOKEN, versions="1-2", flexible_from=2
):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
