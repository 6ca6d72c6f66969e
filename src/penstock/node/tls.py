"""TLS of a node, from its settings: of its listeners, and of its connections to other nodes.

Loaded by a node that has any. Keys and certificates are read here, before anything is opened, so a
node that can't use them does not start. A node shows the same certificate as a server and as a
client of other nodes.
"""

from dataclasses import replace

from penstock.broker.network.entrance import Entrance
from penstock.broker.network.tls_entrance import TlsEntrance
from penstock.model.settings.listener import SecurityProtocol
from penstock.model.settings.of_listener import listener_prefix
from penstock.model.settings.setting import InvalidSetting
from penstock.model.settings.tls import ClientAuth, TlsSettings
from penstock.node.config import NodeConfig
from penstock.node.security import NodeSecurity
from penstock.security.principal_mapping import Rule, parse_rules
from penstock.world.ports import Network, World
from penstock.world.tls import TlsContexts, TlsNetwork


def node_tls(world: World, config: NodeConfig) -> NodeSecurity:
    """InvalidSetting when keys, certificates or rules can't be used."""
    entrances: dict[str, Entrance] = {}
    networks: dict[str, Network] = {}
    for listener in config.cluster.listeners.values():
        if listener.security_protocol.has_tls:
            entrances[listener.name] = _entrance(world, config, listener.name)
    for name in config.cluster.listeners_to_others:
        if config.settings.protocol_of(name).has_tls:
            contexts = TlsContexts(
                config.settings.tls_of(name), world.disk, server_side=False, of=f"links to {name}"
            )
            networks[name] = TlsNetwork(world.network, contexts)
    return NodeSecurity(entrances=entrances, networks=networks)


def _entrance(world: World, config: NodeConfig, listener: str) -> TlsEntrance:
    settings = config.settings.tls_of(listener)
    rules: tuple[Rule, ...] | None = None
    if config.settings.protocol_of(listener) is SecurityProtocol.SASL_SSL:
        # As in Kafka: who logs in needs no certificate, unless this very listener asks for one.
        if f"{listener_prefix(listener)}ssl.client.auth" not in config.settings.given:
            settings = replace(settings, ssl_client_auth=ClientAuth.NONE)
    else:
        rules = _rules(settings)
    contexts = TlsContexts(settings, world.disk, server_side=True, of=f"listener {listener}")
    return TlsEntrance(contexts, rules)


def _rules(settings: TlsSettings) -> tuple[Rule, ...]:
    try:
        return parse_rules(settings.ssl_principal_mapping_rules)
    except ValueError as error:
        raise InvalidSetting(
            name="ssl.principal.mapping.rules",
            value=settings.ssl_principal_mapping_rules,
            expected=str(error),
        ) from None
