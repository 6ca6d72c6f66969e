"""How a client's connections are protected; `client_security` reads it from settings."""

from penstock.client.network.sasl_login import SaslLogin
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.listener import SecurityProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    login: SaslLogin | None = None  # where the protocol is one with SASL
