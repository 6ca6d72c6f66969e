"""From settings to a cluster: the one way by which commands, Spark and programs connect.

    bootstrap.servers                        HOST:PORT[,HOST:PORT...]
    client.id                                what brokers log of the client
    request.timeout.ms                       how long a reply may take
    socket.connection.setup.timeout.ms       how long a connection may take
    default.api.timeout.ms                   how long brokers are tried that can't be reached
    security.protocol, sasl.*                `client_security`
    ssl.*                                    `secured_network`

Other names are those of other clients, which the same settings may serve, and have no effect.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.client_security import PROTOCOL, client_security
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.secured_network import secured_network
from penstock.model.settings.setting import InvalidSetting, MissingSetting, int32
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from penstock.world.tcp import TcpNetwork

BOOTSTRAP = "bootstrap.servers"
CLIENT_ID = "client.id"
REQUEST_MS = "request.timeout.ms"
CONNECT_MS = "socket.connection.setup.timeout.ms"
REACH_MS = "default.api.timeout.ms"


def connect(settings: Mapping[str, str], *, rules: ClusterRules | None = None) -> Cluster:
    """A cluster, to be used as `async with`; nothing is sent before that. What the settings leave
    open is as in `rules`. InvalidSetting, BadSecurity or BadAddress for what cannot work.
    """
    if BOOTSTRAP not in settings:
        raise MissingSetting(BOOTSTRAP, "HOST:PORT[,HOST:PORT...]")
    addresses = parse_addresses(settings[BOOTSTRAP])
    known = rules or ClusterRules()
    security = known.security
    if PROTOCOL in settings:
        security = client_security(
            settings,
            random_bytes=RealEntropy().random_bytes,
            read_file=lambda path: Path(path).read_text(),
        )
    known = replace(
        known,
        client_id=settings.get(CLIENT_ID) or known.client_id,
        request_ms_max=_number(settings, REQUEST_MS, known.request_ms_max, least=1),
        connect_ms_max=_number(settings, CONNECT_MS, known.connect_ms_max, least=1),
        reach_ms_max=_number(settings, REACH_MS, known.reach_ms_max, least=0),
        security=security,
    )
    network = secured_network(settings, TcpNetwork(), RealDisk())
    return Cluster(network, RealClock(), addresses, rules=known)


def _number(settings: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = settings.get(name)
    if text is None:
        return default
    try:
        number = int32(least)(text.strip())
    except ValueError as error:
        raise InvalidSetting(name=name, value=text, expected=str(error)) from None
    assert isinstance(number, int)
    return number
