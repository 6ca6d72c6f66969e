"""The client's side of SCRAM. It also checks that the server knows the password.

The iterations are paid once for each salt that a server sends, which is once per user and cluster:
`SaltedPasswords` keeps what they led to.
"""

import hmac

from penstock.model.sasl import ScramMechanism
from penstock.security.sasl.exchange import LoginRefused
from penstock.security.sasl.scram_credential import (
    ITERATIONS_MIN,
    client_key,
    exclusive_or,
    salted_password,
    server_key,
    sign,
    stored_key,
)
from penstock.security.sasl.scram_messages import (
    UnreadableMessage,
    client_final,
    client_final_unsigned,
    client_first_bare,
    read_server_final,
    read_server_first,
)

HEADER = "n,,"
# A server that is not what it seems must not keep the client busy.
ITERATIONS_ACCEPTED_MAX = 1_000_000
SALTS_KEPT_MAX = 8


class SaltedPasswords:
    """One password with the salts that servers have sent."""

    def __init__(self, mechanism: ScramMechanism, password: str) -> None:
        self.mechanism = mechanism
        self._password = password
        self._salted: dict[tuple[bytes, int], bytes] = {}

    def with_salt(self, salt: bytes, iterations: int) -> bytes:
        key = (salt, iterations)
        found = self._salted.pop(key, None)
        if found is None:
            found = salted_password(
                self.mechanism, self._password, salt=salt, iterations=iterations
            )
        while len(self._salted) >= SALTS_KEPT_MAX:
            del self._salted[next(iter(self._salted))]
        self._salted[key] = found
        return found


class ScramClient:
    """`nonce` is fresh, of printable characters without a comma. A client that logs in `by_token`
    has the id of a delegation token for a user, and its HMAC in base64 for a password.
    """

    def __init__(
        self, user: str, passwords: SaltedPasswords, *, nonce: str, by_token: bool = False
    ) -> None:
        self._mechanism = passwords.mechanism
        self._passwords = passwords
        self._nonce = nonce
        self._bare = client_first_bare(user, nonce, by_token=by_token)
        self._expected: bytes | None = None  # the server's signature, once it is due
        self.is_complete = False

    def first(self) -> bytes:
        return f"{HEADER}{self._bare}".encode()

    def respond(self, token: bytes) -> bytes | None:
        try:
            if self._expected is None:
                return self._final(token)
            if self.is_complete:
                raise LoginRefused("the server went on after the end of the log-in")
            signature = read_server_final(token)
        except UnreadableMessage as error:
            raise LoginRefused(f"the server sent what is no message of SCRAM: {error}") from None
        if not hmac.compare_digest(signature, self._expected):
            raise LoginRefused("the server does not know the password")
        self.is_complete = True
        return None

    def _final(self, token: bytes) -> bytes:
        challenge = read_server_first(token)
        if not challenge.nonce.startswith(self._nonce) or challenge.nonce == self._nonce:
            raise LoginRefused("the server's nonce does not continue the client's")
        if not ITERATIONS_MIN <= challenge.iterations <= ITERATIONS_ACCEPTED_MAX:
            raise LoginRefused(f"the server asks for {challenge.iterations} iterations")
        salted = self._passwords.with_salt(challenge.salt, challenge.iterations)
        unsigned = client_final_unsigned(HEADER, challenge.nonce)
        signed = f"{self._bare},{challenge.text},{unsigned}".encode()
        key = client_key(self._mechanism, salted)
        signature = sign(self._mechanism, stored_key(self._mechanism, key), signed)
        self._expected = sign(self._mechanism, server_key(self._mechanism, salted), signed)
        return client_final(unsigned, exclusive_or(key, signature)).encode()
