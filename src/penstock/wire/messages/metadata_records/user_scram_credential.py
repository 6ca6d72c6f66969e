"""A user's credential for SCRAM: what verifies a password, never the password."""

from penstock.wire.definition import Message, int8, int32, octets, string


class UserScramCredentialRecord(Message, key=11, versions="0", flexible_from=0):
    name: str = string()
    mechanism: int = int8()
    salt: bytes = octets()
    stored_key: bytes = octets()
    server_key: bytes = octets()
    iterations: int = int32()


class RemoveUserScramCredentialRecord(Message, key=22, versions="0", flexible_from=0):
    name: str = string()
    mechanism: int = int8()
