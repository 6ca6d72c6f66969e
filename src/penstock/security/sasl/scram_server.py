"""The broker's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677).

    client first  -> server first     salt and iterations of the user
    client final  -> server final     the proof fits the stored key; the signature proves the server

A log-in costs the broker two hashes: the iterations are the client's. An unknown user is given a
salt of its own, the same each time (`decoy_key_of`), and is rejected like a wrong password, so that
a stranger does not learn which users there are. A delegation token is a user with another name,
that of its owner; its first log-in needs its iterations here too, which the answer to the client
first says (`Hashing`).
"""

import hmac
from collections.abc import Callable

from penstock.model.sasl import ScramMechanism
from penstock.security.sasl.exchange import Accepted, Challenge, Hashing, Rejected, Step
from penstock.security.sasl.scram_credential import (
    ITERATIONS_MIN,
    SALT_BYTES,
    ScramCredential,
    digest_bytes,
    exclusive_or,
    sign,
    stored_key,
)
from penstock.security.sasl.scram_messages import (
    TOKEN_EXTENSION,
    ClientFirst,
    UnreadableMessage,
    read_client_final,
    read_client_first,
    server_final,
    server_first,
)
from penstock.security.sasl.token_credentials import TokenLogin

INVALID = "Invalid credentials"
NONCE_CHARS_MAX = 1024
SUPPORTED_EXTENSIONS = frozenset({TOKEN_EXTENSION})


def decoy_key_of(cluster_id: str, token_secret: str | None) -> bytes:
    """One for all nodes and listeners, before and after a restart: a salt that differs or changes
    is no user's. Strangers do not know the id of the cluster, which is told after the log-in, and
    nobody who was told knows the secret. No password is in it, nor what follows from one: by a
    decoy, passwords could be tried out without asking the node.
    """
    return hmac.digest((token_secret or "").encode(), b"decoys " + cluster_id.encode(), "sha256")


class ScramServer:
    """`credential` looks a user up, `token` a delegation token with the time since 1970. `nonce` is
    fresh; `decoy_key` is the cluster's.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential: Callable[[str], ScramCredential | None],
        *,
        nonce: str,
        decoy_key: bytes,
        token: Callable[[str, int], TokenLogin | Hashing | None] | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._look_up = credential
        self._look_up_token = token
        self._by_token: TokenLogin | None = None
        self._nonce = nonce
        self._decoy_key = decoy_key
        self._first: ClientFirst | None = None
        self._sent = ""
        self._is_known = False
        self._credential: ScramCredential | None = None

    def respond(self, token: bytes, *, now_ms: int) -> Step:
        try:
            if self._first is None:
                return self._challenge(token, now_ms)
            return self._verdict(token)
        except UnreadableMessage as error:
            return Rejected(reason=f"Unreadable message: {error}")

    def _challenge(self, token: bytes, now_ms: int) -> Step:
        first = read_client_first(token)
        if len(first.nonce) > NONCE_CHARS_MAX:
            return Rejected(reason="Nonce is too long")
        if first.authorization not in (None, first.user):
            return Rejected(reason="Authorization id differs from the username")
        if first.extensions.keys() - SUPPORTED_EXTENSIONS:
            return Rejected(reason="Unsupported extension")
        if _is_by_token(first):
            if self._look_up_token is not None:
                found = self._look_up_token(first.user, now_ms)
                if isinstance(found, Hashing):
                    return found
                self._by_token = found
            known = None if self._by_token is None else self._by_token.credential
        else:
            known = self._look_up(first.user)
        self._first = first
        self._is_known = known is not None
        self._credential = self._decoy(first) if known is None else known
        self._nonce = first.nonce + self._nonce
        self._sent = server_first(self._nonce, self._credential.salt, self._credential.iterations)
        return Challenge(token=self._sent.encode())

    def _verdict(self, token: bytes) -> Step:
        first, credential, mechanism = self._first, self._credential, self._mechanism
        assert first is not None
        assert credential is not None
        final = read_client_final(token)
        signed = f"{first.bare},{self._sent},{final.unsigned}".encode()
        signature = sign(mechanism, credential.stored_key, signed)
        if len(final.proof) != len(signature):
            return Rejected(reason=INVALID)
        proven = stored_key(mechanism, exclusive_or(final.proof, signature))
        # All is computed for unknown users too, and one reason is given for all failures.
        holds = hmac.compare_digest(proven, credential.stored_key)
        is_same_talk = final.header == first.header and hmac.compare_digest(
            final.nonce.encode(), self._nonce.encode()
        )
        if not (self._is_known and holds and is_same_talk):
            return Rejected(reason=INVALID)
        final_token = server_final(sign(mechanism, credential.server_key, signed)).encode()
        if self._by_token is None:
            return Accepted(user=first.user, token=final_token)
        return Accepted(
            user=self._by_token.owner,
            token=final_token,
            expires_ms=self._by_token.expires_ms,
            by_token=True,
        )

    def _decoy(self, first: ClientFirst) -> ScramCredential:
        """What no password fits. Like users and tokens, it has a salt for each mechanism."""
        size = digest_bytes(self._mechanism)
        kind = b"token" if _is_by_token(first) else b"user"
        of = b" ".join((kind, self._mechanism.name.encode(), first.user.encode()))
        salt = hmac.digest(self._decoy_key, of, "sha256")[:SALT_BYTES]
        return ScramCredential(
            iterations=ITERATIONS_MIN, salt=salt, stored_key=bytes(size), server_key=bytes(size)
        )


def _is_by_token(first: ClientFirst) -> bool:
    return first.extensions.get(TOKEN_EXTENSION, "false").lower() == "true"
