"""The nodes of a layout, secured: clients log in over TLS, nodes know each other by certificates.

    CLIENTS      SASL_SSL, by SCRAM-SHA-512
    BROKERS      SSL, nodes alone: both sides show a certificate
    CONTROLLER   the same

Controllers do not ask for a password of SCRAM: it is in the metadata, which after a stop of all
nodes none of them has before a majority has let each other in. They would know the first passwords
alone.

A certificate of the authority is not enough to act as a node: the nodes are super users by their
names, and everybody else has the rights that the access control entries give.
"""

from collections.abc import Sequence

from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.cluster_node import cluster_node
from penstock.model.settings.listener import HostPort
from penstock.node.cluster_layout import BROKERS as PLAIN
from penstock.node.cluster_layout import CONTROLLERS, LaidOutNode, LayoutRefused

CLIENTS, BROKERS = "CLIENTS", "BROKERS"
ADMIN = "admin"  # the first user
MECHANISM = "SCRAM-SHA-512"
AUTHORITY_FILE = "ca.pem"
TRUSTED = "ssl.truststore.location"


def authority_file(directory: str) -> str:
    """The certificate of the authority, which nodes and clients trust."""
    return f"{directory}/{AUTHORITY_FILE}"


def secure_layout(
    laid_out: Sequence[LaidOutNode], *, directory: str, ports: Sequence[int], host: str
) -> tuple[LaidOutNode, ...]:
    """The same nodes with the certificates of a directory, and one more port for each: there the
    other brokers reach it.
    """
    assert len(ports) == len(laid_out), ports
    if not directory.isprintable():
        raise LayoutRefused(f"{directory!r}: its name cannot be written into a file")
    users = ";".join(["User:" + ADMIN, *(f"User:CN={one.name}" for one in laid_out)])
    made = []
    for one, port in zip(laid_out, ports, strict=True):
        added = _added(one, directory, users)
        taken = sorted(added.keys() & one.settings.keys())
        if taken:
            raise LayoutRefused(f"{taken[0]} is what --secured decides: edit the file of each node")
        listeners = one.settings["listeners"].replace(f"{PLAIN}://", f"{CLIENTS}://", 1)
        listeners += f",{BROKERS}://{HostPort(host=host, port=port)}"
        settings = {
            **one.settings,
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": (
                f"{CLIENTS}:SASL_SSL,{BROKERS}:SSL,{CONTROLLERS}:SSL"
            ),
            "inter.broker.listener.name": BROKERS,
            **added,
        }
        made.append(LaidOutNode(node_id=one.node_id, directory=one.directory, settings=settings))
    for one in made:
        cluster_node(parse_broker(one.settings), one.node_id)
    return tuple(made)


def admin_settings(directory: str, *, password: str) -> dict[str, str]:
    """What the first user's clients need, by the names that Java clients and our own have."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f'{module} required username="{ADMIN}" password="{password}";',
        "ssl.truststore.type": "PEM",
        TRUSTED: authority_file(directory),
    }


def _added(node: LaidOutNode, directory: str, super_users: str) -> dict[str, str]:
    return {
        "sasl.enabled.mechanisms": MECHANISM,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{directory}/{node.name}.pem",
        "ssl.truststore.type": "PEM",
        TRUSTED: authority_file(directory),
        f"listener.name.{BROKERS.lower()}.ssl.client.auth": "required",
        f"listener.name.{CONTROLLERS.lower()}.ssl.client.auth": "required",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": super_users,
    }
