"""DescribeDelegationToken: the tokens that there are, with their secrets (KIP-48)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    nullable,
    octets,
    string,
)


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(
    Message, key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="1-3", flexible_from=2
):
    # null: those of all owners; none: no tokens
    owners: list[DescribeDelegationTokenOwner] | None = nullable(
        array(DescribeDelegationTokenOwner)
    )


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Struct):
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = octets()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(
    Message, key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="1-3", flexible_from=2
):
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
