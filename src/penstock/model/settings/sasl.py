"""The settings of SASL, with Kafka's names and defaults: of a node, and of one listener.

A node has them once; a listener, or a listener for one mechanism, may have its own:

    listener.name.external.sasl.enabled.mechanisms               of the listener EXTERNAL
    listener.name.external.oauthbearer.connections.max.reauth.ms   of one mechanism there
    listener.name.external.plain.sasl.jaas.config                users and own login: always so

`BrokerSettings.sasl_of` lays them over each other.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from penstock.model.lazy_dataclass import dataclass
from penstock.model.sasl import Mechanism
from penstock.model.settings.listener import keys_address
from penstock.model.settings.setting import (
    Setting,
    SettingType,
    any_text,
    declare,
    declared,
    int32,
    int64,
    integer,
    items,
    long,
)

T = SettingType
JAAS_CONFIG = "sasl.jaas.config"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """What log-ins obey. Field names are Kafka's, with underscores."""

    connection_failed_authentication_delay_ms: int = integer(
        100, "How long the reply to a failed log-in is held back.", int32(0)
    )
    connections_max_reauth_ms: int = long(
        0, "How long a session lasts before a client must authenticate again; 0: for ever."
    )
    sasl_enabled_mechanisms: tuple[str, ...] = declare(
        ("GSSAPI",), T.LIST, items, "The mechanisms that clients may log in with."
    )
    sasl_mechanism_controller_protocol: str = declare(
        "GSSAPI", T.STRING, any_text, "The mechanism by which nodes log in at controllers."
    )
    sasl_mechanism_inter_broker_protocol: str = declare(
        "GSSAPI", T.STRING, any_text, "The mechanism by which brokers log in at each other."
    )
    sasl_oauthbearer_clock_skew_seconds: int = integer(
        30, "By how much the clock of the issuer of tokens may differ.", int32(0)
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = declare(
        (), T.LIST, items, "Of these a token must name one as its audience; empty: any."
    )
    sasl_oauthbearer_expected_issuer: str | None = declare(
        None, T.STRING, any_text, "The issuer that a token must name."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = long(
        3_600_000, "How often the keys of the issuer are read again.", int64(1000)
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = declare(
        None, T.STRING, keys_address, "Where the keys of the issuer are: file:///..., https://..."
    )
    sasl_oauthbearer_sub_claim_name: str = declare(
        "sub", T.STRING, any_text, "The claim of a token that names its user."
    )
    sasl_server_max_receive_size: int = integer(
        524_288, "The most bytes that one request of a log-in may have.", int32(1024)
    )


SASL_SETTINGS: Mapping[str, Setting] = MappingProxyType(declared(SaslSettings))


def parse_sasl(values: Mapping[str, str]) -> SaslSettings:
    """The settings of SASL among `values`; InvalidSetting for the first that is wrong."""
    parsed: dict[str, Any] = {
        setting.field: setting.parse(values[name])
        for name, setting in SASL_SETTINGS.items()
        if name in values
    }
    return SaslSettings(**parsed)


def sasl_values(
    given: Mapping[str, str], *, listener_prefix: str, mechanism: Mechanism | None
) -> dict[str, str]:
    """The texts that hold for a listener, or for one mechanism on it: the nearest one counts."""
    prefixes = ["", listener_prefix]
    if mechanism is not None:
        prefixes.append(mechanism_prefix(listener_prefix, mechanism))
    return {
        name: given[prefix + name]
        for prefix in prefixes
        for name in SASL_SETTINGS
        if prefix + name in given
    }


def mechanism_prefix(listener_prefix: str, mechanism: Mechanism) -> str:
    return f"{listener_prefix}{mechanism.value.lower()}."


def is_sasl_of_listener(name: str, listener_prefix: str) -> bool:
    """Whether a name is that of a setting of SASL for one listener."""
    if not name.startswith(listener_prefix):
        return False
    rest = name.removeprefix(listener_prefix)
    for mechanism in Mechanism:
        own = rest.removeprefix(f"{mechanism.value.lower()}.")
        if own != rest:
            return own in SASL_SETTINGS or own == JAAS_CONFIG
    return rest in SASL_SETTINGS
