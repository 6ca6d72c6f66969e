"""How a client logs in, by Kafka's names for it.

    security.protocol                 PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
    sasl.mechanism                    PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER
    sasl.username, sasl.password      as librdkafka has them, or both in
    sasl.jaas.config                  MODULE required username="NAME" password="PASSWORD";
                                      with tokenauth="true" for a delegation token: its id and HMAC
    sasl.oauthbearer.token.endpoint.url   file:///FILE with a bearer token

A name that is something else's is left alone; `secured_network` reads those of TLS. Errors
quote no values of secrets.
"""

from collections.abc import Callable, Mapping

from penstock.client.network.login_kinds import password_login, token_login
from penstock.client.network.sasl_login import SaslLogin
from penstock.client.network.security import ClientSecurity
from penstock.model.error import PenstockError
from penstock.model.sasl import Mechanism, mechanism_named
from penstock.model.settings.listener import SecurityProtocol
from penstock.security.sasl.jaas import parse_jaas

PROTOCOL = "security.protocol"
MECHANISM_NAMES = ("sasl.mechanism", "sasl.mechanisms")  # Kafka's, and that of librdkafka
JAAS = "sasl.jaas.config"
USER, PASSWORD = "sasl.username", "sasl.password"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
SASL_SETTINGS = (*MECHANISM_NAMES, JAAS, USER, PASSWORD, TOKEN_URL)
FILE_SCHEME = "file://"
TOKEN = "tokenauth"  # an option of sasl.jaas.config


class BadSecurity(PenstockError):
    """Settings of a client by which it could not connect, and what would be right."""


def client_security(
    values: Mapping[str, str],
    *,
    random_bytes: Callable[[int], bytes],
    read_file: Callable[[str], str],
) -> ClientSecurity:
    """BadSecurity for what cannot work. `read_file` is asked for a token at each log-in."""
    protocol = security_protocol(values)
    if not protocol.has_sasl:
        return ClientSecurity(protocol=protocol)
    return ClientSecurity(
        protocol=protocol, login=_login(values, random_bytes=random_bytes, read_file=read_file)
    )


def security_protocol(values: Mapping[str, str]) -> SecurityProtocol:
    text = values.get(PROTOCOL, SecurityProtocol.PLAINTEXT.name).upper()
    if text not in SecurityProtocol.__members__:
        known = ", ".join(SecurityProtocol.__members__)
        raise BadSecurity(f"{PROTOCOL}={text}: expected one of {known}")
    return SecurityProtocol[text]


def _login(
    values: Mapping[str, str],
    *,
    random_bytes: Callable[[int], bytes],
    read_file: Callable[[str], str],
) -> SaslLogin:
    name = next((one for one in MECHANISM_NAMES if one in values), None)
    if name is None:
        known = ", ".join(one.value for one in Mechanism)
        raise BadSecurity(f"sasl.mechanism is missing: one of {known}")
    try:
        mechanism = mechanism_named(values[name])
    except ValueError as error:
        raise BadSecurity(f"{name}: {error}") from None
    if mechanism is Mechanism.OAUTHBEARER:
        return token_login(_token(values, read_file))
    user, password, by_token = _credentials(values)
    if by_token and mechanism is Mechanism.PLAIN:
        raise BadSecurity(f"{JAAS}: {TOKEN} is for SCRAM-SHA-256 and SCRAM-SHA-512")
    return password_login(
        mechanism, user=user, password=password, random_bytes=random_bytes, by_token=by_token
    )


def _credentials(values: Mapping[str, str]) -> tuple[str, str, bool]:
    """User, password, and whether they are those of a delegation token."""
    found = dict(values)
    names = (USER, PASSWORD)
    if JAAS in values:
        try:
            options = parse_jaas(values[JAAS]).options
        except ValueError as error:
            raise BadSecurity(f"{JAAS}: {error}") from None
        found = dict(options)
        names = ("username", "password")
    for name in names:
        if not found.get(name):
            where = f" in {JAAS}" if JAAS in values else ""
            raise BadSecurity(f"{name} is missing{where}")
    by_token = JAAS in values and found.get(TOKEN, "false").lower() == "true"
    return found[names[0]], found[names[1]], by_token


def _token(values: Mapping[str, str], read_file: Callable[[str], str]) -> Callable[[], str]:
    url = values.get(TOKEN_URL, "")
    if not url.startswith(FILE_SCHEME):
        raise BadSecurity(f"{TOKEN_URL} must be file:///FILE, a file that holds a token")
    path = url.removeprefix(FILE_SCHEME)

    def token() -> str:
        try:
            return read_file(path).strip()
        except OSError as error:
            raise BadSecurity(f"{path}: {error.strerror}") from None

    return token
