"""What a password leaves behind for SCRAM (RFC 5802), and how it is computed.

    SaltedPassword   PBKDF2(password, salt, iterations)
    ClientKey        HMAC(SaltedPassword, "Client Key")
    StoredKey        H(ClientKey)                          kept: verifies a client's proof
    ServerKey        HMAC(SaltedPassword, "Server Key")    kept: proves the server to the client

Like Apache Kafka, passwords are taken as their UTF-8 bytes, without SASLprep.
"""

import hashlib
import hmac
from dataclasses import field

from penstock.model.lazy_dataclass import dataclass
from penstock.model.sasl import ScramMechanism

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384  # as in Apache Kafka
DIGESTS = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}
SALT_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """Whoever has it can pretend to be the server, and test guesses: it is never shown."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def salted_password(
    mechanism: ScramMechanism, password: str, *, salt: bytes, iterations: int
) -> bytes:
    """The slow step: some milliseconds by design."""
    return hashlib.pbkdf2_hmac(DIGESTS[mechanism], password.encode(), salt, iterations)


def credential_of(
    mechanism: ScramMechanism, salted: bytes, *, salt: bytes, iterations: int
) -> ScramCredential:
    """What is kept of a salted password."""
    return ScramCredential(
        iterations=iterations,
        salt=salt,
        stored_key=stored_key(mechanism, client_key(mechanism, salted)),
        server_key=server_key(mechanism, salted),
    )


def new_credential(
    mechanism: ScramMechanism, password: str, *, salt: bytes, iterations: int = ITERATIONS_MIN
) -> ScramCredential:
    salted = salted_password(mechanism, password, salt=salt, iterations=iterations)
    return credential_of(mechanism, salted, salt=salt, iterations=iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return sign(mechanism, salted, b"Client Key")


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return sign(mechanism, salted, b"Server Key")


def stored_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    return hashlib.new(DIGESTS[mechanism], key).digest()


def digest_bytes(mechanism: ScramMechanism) -> int:
    return hashlib.new(DIGESTS[mechanism]).digest_size


def sign(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, DIGESTS[mechanism])


def exclusive_or(one: bytes, other: bytes) -> bytes:
    assert len(one) == len(other)
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
