"""AlterUserScramCredentials: users gain and lose passwords for SCRAM (KIP-554).

The client salts and iterates: the password itself does not travel.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    octets,
    prose,
    string,
)


class ScramCredentialDeletion(Struct):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Struct):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = octets()
    salted_password: bytes = octets()


class AlterUserScramCredentialsRequest(
    Message, key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible_from=0
):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlteredUser(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = prose()


class AlterUserScramCredentialsResponse(
    Message, key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible_from=0
):
    throttle_time_ms: int = int32()
    results: list[AlteredUser] = array(AlteredUser)
