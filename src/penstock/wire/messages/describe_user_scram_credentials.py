"""DescribeUserScramCredentials: which users can log in by SCRAM, and with how many iterations
(KIP-554). Neither salts nor keys are told.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    nullable,
    prose,
    string,
)


class UserName(Struct):
    name: str = string()


class DescribeUserScramCredentialsRequest(
    Message, key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible_from=0
):
    users: list[UserName] | None = nullable(array(UserName))  # none, or null: all


class CredentialInfo(Struct):
    mechanism: int = int8()
    iterations: int = int32()


class DescribedUser(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = prose()
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(
    Message, key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()
    results: list[DescribedUser] = array(DescribedUser)
