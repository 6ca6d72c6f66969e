"""How a client's connections are encrypted, by Kafka's names for it.

    security.protocol                        SSL, SASL_SSL; see `client_security` for the log-in
    ssl.truststore.type, .location           PEM or PKCS12: the authorities that sign brokers
    ssl.keystore.type, .location             PEM or PKCS12: the client's own key and certificate
    ssl.endpoint.identification.algorithm    https; empty: any host may show the certificate

Without a trust store the authorities of the system are trusted. PEM text goes into
`ssl.truststore.certificates`, `ssl.keystore.key` and `ssl.keystore.certificate.chain`.
"""

from collections.abc import Mapping

from penstock.client.network.client_security import security_protocol
from penstock.model.settings.setting import UnknownSetting
from penstock.model.settings.tls import TLS_SETTINGS, parse_tls
from penstock.world.ports import Disk, Network
from penstock.world.tls import TlsContexts, TlsNetwork

TLS = "ssl."
# Of Java's own: files that are shared with clients in Java may have them.
JAVAS = frozenset(
    {
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)


def secured_network(values: Mapping[str, str], network: Network, disk: Disk) -> Network:
    """`network`, with TLS if the settings ask for it. InvalidSetting for what can't work,
    BadSecurity for an unknown protocol.
    """
    if not security_protocol(values).has_tls:
        return network
    for name in values:
        if name.startswith(TLS) and name not in TLS_SETTINGS and name not in JAVAS:
            raise UnknownSetting(kind="client", name=name, known=TLS_SETTINGS)
    return TlsNetwork(network, TlsContexts(parse_tls(values), disk, server_side=False, of="client"))
