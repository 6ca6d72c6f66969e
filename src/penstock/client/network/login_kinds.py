"""Log-ins by each mechanism."""

from collections.abc import Callable

from penstock.client.network.sasl_login import SaslLogin
from penstock.model.sasl import Mechanism, ScramMechanism
from penstock.security.sasl.oauthbearer import OauthBearerClient
from penstock.security.sasl.plain import PlainClient
from penstock.security.sasl.scram_client import SaltedPasswords, ScramClient

NONCE_BYTES = 24


def password_login(
    mechanism: Mechanism, *, user: str, password: str, random_bytes: Callable[[int], bytes]
) -> SaslLogin:
    """By PLAIN or SCRAM."""
    if mechanism is Mechanism.PLAIN:
        return SaslLogin(mechanism, lambda: PlainClient(user, password))
    passwords = SaltedPasswords(ScramMechanism[mechanism.name], password)
    return SaslLogin(
        mechanism,
        lambda: ScramClient(user, passwords, nonce=random_bytes(NONCE_BYTES).hex()),
    )


def token_login(token: Callable[[], str]) -> SaslLogin:
    """By OAUTHBEARER; `token` is asked for each log-in."""
    return SaslLogin(Mechanism.OAUTHBEARER, lambda: OauthBearerClient(token()))
