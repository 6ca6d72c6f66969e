"""The settings of TLS, with Kafka's names and defaults: of a node, of one listener, of a client.

A node has them once, and each listener may have its own: `listener.name.internal.ssl.client.auth`
is that of the listener INTERNAL alone. `BrokerSettings.tls_of` lays the two over each other.
Clients, and nodes that connect to others, use the same names.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.setting import (
    Setting,
    SettingType,
    any_text,
    declare,
    declared,
    flag,
    items,
    one_of,
)

T = SettingType
PROTOCOLS = ("TLSv1.2", "TLSv1.3")


class ClientAuth(Enum):
    """Whether a client must show a certificate."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"

    def __str__(self) -> str:
        return self.value


class StoreType(Enum):
    """How keys and certificates are stored."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"

    def __str__(self) -> str:
        return self.value


def protocols(text: str) -> tuple[str, ...]:
    """Kafka accepts older versions too; here they are refused, since they are broken."""
    found = items(text)
    if not found:
        raise ValueError(f"At least one of {', '.join(PROTOCOLS)} is needed")
    for protocol in found:
        if protocol not in PROTOCOLS:
            raise ValueError(f"Each protocol must be one of {', '.join(PROTOCOLS)}")
    return found


def client_auth(text: str) -> ClientAuth:
    try:
        return ClientAuth(text.lower())
    except ValueError:
        raise ValueError("String must be one of: none, requested, required") from None


def store_type(text: str) -> StoreType:
    try:
        return StoreType(text.upper())
    except ValueError:
        raise ValueError("String must be one of: PEM, PKCS12, JKS") from None


def identification(text: str) -> str:
    return str(one_of("https", "")(text.lower()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """What one listener, or one client, obeys. Field names are Kafka's, with underscores."""

    ssl_cipher_suites: tuple[str, ...] = declare(
        (), T.LIST, items, "Which cipher suites are allowed, by their IANA names; empty: the usual."
    )
    ssl_client_auth: ClientAuth = declare(
        ClientAuth.NONE,
        T.STRING,
        client_auth,
        "Whether clients show a certificate: none, requested or required.",
    )
    ssl_enabled_protocols: tuple[str, ...] = declare(
        PROTOCOLS, T.LIST, protocols, "Versions of TLS that are spoken: TLSv1.2, TLSv1.3."
    )
    ssl_endpoint_identification_algorithm: str = declare(
        "https",
        T.STRING,
        identification,
        "Whether the host connected to must be in the server's certificate: https, or empty.",
    )
    ssl_key_password: str | None = declare(
        None, T.PASSWORD, any_text, "The password of the private key."
    )
    ssl_keystore_certificate_chain: str | None = declare(
        None, T.PASSWORD, any_text, "The certificate and those above it, as PEM text."
    )
    ssl_keystore_key: str | None = declare(
        None, T.PASSWORD, any_text, "The private key, as PEM text."
    )
    ssl_keystore_location: str | None = declare(
        None, T.STRING, any_text, "The file with the private key and its certificates."
    )
    ssl_keystore_password: str | None = declare(
        None, T.PASSWORD, any_text, "The password of the key store, if it is a PKCS12 file."
    )
    ssl_keystore_type: StoreType = declare(
        StoreType.JKS, T.STRING, store_type, "The format of the key store: PEM or PKCS12."
    )
    ssl_principal_mapping_rules: str = declare(
        "DEFAULT",
        T.STRING,
        any_text,
        "How the name in a client's certificate becomes the name of a user.",
    )
    ssl_truststore_certificates: str | None = declare(
        None, T.PASSWORD, any_text, "The certificates that are trusted, as PEM text."
    )
    ssl_truststore_location: str | None = declare(
        None, T.STRING, any_text, "The file with the certificates that are trusted."
    )
    ssl_truststore_password: str | None = declare(
        None, T.PASSWORD, any_text, "The password of the trust store, if it is a PKCS12 file."
    )
    ssl_truststore_type: StoreType = declare(
        StoreType.JKS, T.STRING, store_type, "The format of the trust store: PEM or PKCS12."
    )
    penstock_ssl_kernel_enable: bool = flag(
        False, "Lets the kernel encrypt what is sent, where kernel, Python and OpenSSL can."
    )

    @property
    def files(self) -> tuple[str, ...]:
        """The files that these settings name."""
        named = (self.ssl_keystore_location, self.ssl_truststore_location)
        return tuple(path for path in named if path is not None)

    @property
    def has_key(self) -> bool:
        return self.ssl_keystore_location is not None or self.ssl_keystore_key is not None

    @property
    def has_trust(self) -> bool:
        return (
            self.ssl_truststore_location is not None or self.ssl_truststore_certificates is not None
        )


TLS_SETTINGS: Mapping[str, Setting] = MappingProxyType(declared(TlsSettings))


def parse_tls(values: Mapping[str, str]) -> TlsSettings:
    """The settings of TLS among `values`; InvalidSetting for the first that is wrong."""
    parsed: dict[str, Any] = {
        setting.field: setting.parse(values[name])
        for name, setting in TLS_SETTINGS.items()
        if name in values
    }
    return TlsSettings(**parsed)
