"""Credentials for SCRAM, as the image and the active controller hold them."""

from typing import NamedTuple

from penstock.model.sasl import ScramMechanism
from penstock.security.sasl.scram_credential import ScramCredential
from penstock.wire.messages.metadata_records.user_scram_credential import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)


class ScramUser(NamedTuple):
    """Whose credential it is: a user has one for each mechanism, or none."""

    name: str
    mechanism: ScramMechanism


def user_of(record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> ScramUser:
    return ScramUser(record.name, ScramMechanism(record.mechanism))


def credential_in(record: UserScramCredentialRecord) -> ScramCredential:
    return ScramCredential(
        iterations=record.iterations,
        salt=bytes(record.salt),
        stored_key=bytes(record.stored_key),
        server_key=bytes(record.server_key),
    )


def credential_record(user: ScramUser, credential: ScramCredential) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=user.name,
        mechanism=user.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
