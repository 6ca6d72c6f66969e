"""Into which topic the nodes of a cluster write their alerts: `penstock.alerts.topic`."""

from penstock.client.admin.configs import Resource, describe_configs
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Refused
from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId
from penstock.model.settings.alerts import ALERTS_TOPIC

SETTING = "penstock.alerts.topic"


class NotEvaluated(ClientError):
    """The broker is not one of Penstock: it evaluates no alerts."""


async def alert_topic(cluster: Cluster, node: NodeId) -> str | None:
    """As this broker's settings name it; None where they say that there is none. The default where
    they are not for us to see. NotEvaluated of brokers that do not know the setting, as those of
    Apache Kafka.
    """
    resource = Resource(ResourceKind.BROKER, str(node))
    entries = (await describe_configs(cluster, [resource], names=[SETTING]))[resource]
    if isinstance(entries, Refused):
        return ALERTS_TOPIC
    for entry in entries:
        if entry.name == SETTING:
            return entry.value or None
    raise NotEvaluated(
        f"broker {node} has no setting {SETTING}: only nodes of Penstock evaluate alerts"
    )
