"""Log-ins of a node, as its settings have them: those that a listener takes, and its own at others.

    logins_of        of a listener with SASL: mechanisms, users, keys, bounds
    own_login        by which this node logs in at the listeners of others

Both refuse, with one line and without a word of a secret, what cannot work. A node without SASL
does not import this.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.broker.network.authentication import Authentication
from penstock.client.network.login_kinds import password_login
from penstock.client.network.sasl_login import SaslLogin
from penstock.metadata.image.image import Image
from penstock.metadata.image.scram import ScramUser
from penstock.model.lazy_dataclass import dataclass
from penstock.model.sasl import Mechanism, ScramMechanism, mechanism_named
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.setting import InvalidSetting, MissingSetting
from penstock.security.sasl.exchange import Hashing, ServerExchange
from penstock.security.sasl.jaas import JaasEntry, parse_jaas
from penstock.security.sasl.plain import PlainServer
from penstock.security.sasl.scram_credential import ScramCredential
from penstock.security.sasl.scram_server import ScramServer, decoy_key_of
from penstock.security.sasl.token_credentials import TokenCredentials, TokenLogin
from penstock.world.ports import World

if TYPE_CHECKING:
    from penstock.node.token_keys import TokenKeySource

SCRAM = {one.mechanism: one for one in ScramMechanism}
MODULES = {
    Mechanism.PLAIN: "PlainLoginModule",
    Mechanism.SCRAM_SHA_256: "ScramLoginModule",
    Mechanism.SCRAM_SHA_512: "ScramLoginModule",
    Mechanism.OAUTHBEARER: "OAuthBearerLoginModule",
}
NONCE_BYTES = 24
SCHEMES = ("file", "http", "https")  # of addresses of an issuer's keys


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLogins:
    """The log-ins that one listener takes."""

    listener: str
    mechanisms: tuple[Mechanism, ...]
    passwords: Mapping[str, str] = field(repr=False)  # of PLAIN, by user


def logins_of(settings: BrokerSettings, listener: str) -> ListenerLogins:
    """InvalidSetting for the first setting that cannot work."""
    mechanisms = _enabled(settings, listener)
    passwords: Mapping[str, str] = {}
    for mechanism in mechanisms:
        if mechanism is Mechanism.PLAIN:
            name, _ = settings.jaas_of(listener, mechanism)
            entry = _jaas(settings, listener, mechanism)
            if entry is None:
                raise MissingSetting(
                    name,
                    f"listener {listener} takes PLAIN: PlainLoginModule required"
                    ' user_NAME="PASSWORD" ...;',
                )
            passwords = entry.users
        elif mechanism is Mechanism.OAUTHBEARER:
            _check_token_settings(settings, listener)
        else:
            _jaas(settings, listener, mechanism)
    return ListenerLogins(listener=listener, mechanisms=mechanisms, passwords=passwords)


def own_login(
    settings: BrokerSettings,
    *,
    listener: str,
    mechanism_setting: str,
    random_bytes: Callable[[int], bytes],
) -> SaslLogin:
    """By which this node logs in at other nodes' listeners of that name."""
    text = (
        settings.sasl.sasl_mechanism_inter_broker_protocol
        if mechanism_setting == "sasl.mechanism.inter.broker.protocol"
        else settings.sasl.sasl_mechanism_controller_protocol
    )
    try:
        mechanism = mechanism_named(text)
    except ValueError as error:
        raise InvalidSetting(
            name=mechanism_setting, value=settings.given.get(mechanism_setting), expected=str(error)
        ) from None
    if mechanism is Mechanism.OAUTHBEARER:
        raise InvalidSetting(
            name=mechanism_setting,
            value=text,
            expected="Nodes log in at each other by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
        )
    name, _ = settings.jaas_of(listener, mechanism)
    entry = _jaas(settings, listener, mechanism)
    if entry is None or "username" not in entry.options or "password" not in entry.options:
        raise MissingSetting(
            name,
            f"this node logs in by it: {MODULES[mechanism]} required"
            ' username="NAME" password="PASSWORD";',
        )
    return password_login(
        mechanism,
        user=entry.options["username"],
        password=entry.options["password"],
        random_bytes=random_bytes,
    )


def authentication_of(
    logins: ListenerLogins,
    settings: BrokerSettings,
    world: World,
    *,
    image: Callable[[], Image],
    before_image: Callable[[], Mapping[ScramUser, ScramCredential]],
    cluster_id: str,
    keys: "TokenKeySource | None",
) -> Authentication:
    """`before_image` says who counts while this node knows nothing of the cluster: see
    `journalled_users`.
    """

    def credential(mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        known = image()
        found = known.scram_credentials if known.offset > 0 else before_image()
        return found.get(ScramUser(user, mechanism))

    secret = settings.delegation_tokens.secret
    decoy_key = decoy_key_of(cluster_id, secret)
    tokens = None if secret is None else TokenCredentials(secret, lambda: image().delegation_tokens)

    def token(mechanism: ScramMechanism, token_id: str, now_ms: int) -> TokenLogin | Hashing | None:
        return None if tokens is None else tokens.find(mechanism, token_id, now_ms=now_ms)

    def exchange(mechanism: Mechanism) -> ServerExchange:
        if mechanism is Mechanism.PLAIN:
            return PlainServer(logins.passwords)
        if mechanism is Mechanism.OAUTHBEARER:
            assert keys is not None
            return keys.exchange()
        scram = SCRAM[mechanism]
        return ScramServer(
            scram,
            partial(credential, scram),
            nonce=world.entropy.random_bytes(NONCE_BYTES).hex(),
            decoy_key=decoy_key,
            token=partial(token, scram),
        )

    of_listener = settings.sasl_of(logins.listener)
    return Authentication(
        listener=logins.listener,
        exchanges={mechanism: partial(exchange, mechanism) for mechanism in logins.mechanisms},
        reauthentication_ms_max={
            mechanism: settings.sasl_of(logins.listener, mechanism).connections_max_reauth_ms
            for mechanism in logins.mechanisms
        },
        frame_bytes_max=of_listener.sasl_server_max_receive_size,
        failure_delay_ms=of_listener.connection_failed_authentication_delay_ms,
        clock=world.clock,
    )


def _enabled(settings: BrokerSettings, listener: str) -> tuple[Mechanism, ...]:
    texts = settings.sasl_of(listener).sasl_enabled_mechanisms
    try:
        found = tuple(dict.fromkeys(mechanism_named(text) for text in texts))
    except ValueError as error:
        raise InvalidSetting(
            name="sasl.enabled.mechanisms",
            value=",".join(texts),
            expected=f"Listener {listener} speaks SASL: {error}",
        ) from None
    if not found:
        raise MissingSetting(
            "sasl.enabled.mechanisms", f"listener {listener} speaks SASL and takes no mechanism"
        )
    return found


def _jaas(settings: BrokerSettings, listener: str, mechanism: Mechanism) -> JaasEntry | None:
    name, text = settings.jaas_of(listener, mechanism)
    if text is None:
        return None
    try:
        entry = parse_jaas(text)
    except ValueError as error:
        raise InvalidSetting(name=name, value="[hidden]", expected=str(error)) from None
    if entry.module != MODULES[mechanism]:
        expected = f"The login module of {mechanism} is {MODULES[mechanism]}"
        raise InvalidSetting(name=name, value="[hidden]", expected=expected)
    return entry


def _check_token_settings(settings: BrokerSettings, listener: str) -> None:
    of_tokens = settings.sasl_of(listener, Mechanism.OAUTHBEARER)
    name = "sasl.oauthbearer.jwks.endpoint.url"
    url = of_tokens.sasl_oauthbearer_jwks_endpoint_url
    if url is None:
        raise MissingSetting(
            name, f"listener {listener} takes OAUTHBEARER: file:///FILE or https://ADDRESS"
        )
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in SCHEMES and bool(parts.path or parts.netloc)
    except ValueError:  # such as half of an IPv6 address
        is_address = False
    if not is_address:
        raise InvalidSetting(
            name=name, value=url, expected="It must be file:///FILE or https://ADDRESS"
        )
    if not of_tokens.sasl_oauthbearer_expected_audience:
        raise MissingSetting(
            "sasl.oauthbearer.expected.audience",
            "a token for any other service of the issuer would count here; name this one",
        )
    if of_tokens.sasl_oauthbearer_expected_issuer is None:
        raise MissingSetting(
            "sasl.oauthbearer.expected.issuer", "the issuer that tokens must name in iss"
        )
