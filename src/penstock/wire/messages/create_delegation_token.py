"""CreateDelegationToken: a client asks for a token by which others can log in as it (KIP-48)."""

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


class CreatableRenewer(Struct):
    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(
    Message, key=ApiKey.CREATE_DELEGATION_TOKEN, versions="1-3", flexible_from=2
):
    owner_principal_type: str | None = nullable(string("3+"), "3+")  # null: the requester
    owner_principal_name: str | None = nullable(string("3+"), "3+")
    renewers: list[CreatableRenewer] = array(CreatableRenewer)
    max_lifetime_ms: int = int64()  # -1: as the settings have it


class CreateDelegationTokenResponse(
    Message, key=ApiKey.CREATE_DELEGATION_TOKEN, versions="1-3", flexible_from=2
):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = octets()
    throttle_time_ms: int = int32()
