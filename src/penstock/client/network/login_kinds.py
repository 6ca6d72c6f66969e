"""Log-ins by each mechanism."""

from collections.abc import Callable

from penstock.client.network.sasl_login import SaslLogin
from penstock.model.sasl import Mechanism, ScramMechanism
from penstock.security.sasl.oauthbearer import OauthBearerClient
from penstock.security.sasl.plain import PlainClient
from penstock.security.sasl.scram_client import SaltedPasswords, ScramClient

NONCE_BYTES = 24


def password_login(
    mechanism: Mechanism,
    *,
    user: str,
    password: str,
    random_bytes: Callable[[int], bytes],
    by_token: bool = False,
) -> SaslLogin:
    """By PLAIN or SCRAM; by SCRAM, user and password may be those of a delegation token."""
    if mechanism is Mechanism.PLAIN:
        assert not by_token, "delegation tokens are for SCRAM"
        return SaslLogin(mechanism, lambda: PlainClient(user, password))
    passwords = SaltedPasswords(ScramMechanism[mechanism.name], password)
    return SaslLogin(
        mechanism,
        lambda: ScramClient(
            user, passwords, nonce=random_bytes(NONCE_BYTES).hex(), by_token=by_token
        ),
    )


def token_login(token: Callable[[], str]) -> SaslLogin:
    """By OAUTHBEARER; `token` is asked for each log-in."""
    return SaslLogin(Mechanism.OAUTHBEARER, lambda: OauthBearerClient(token()))
