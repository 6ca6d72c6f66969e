"""Which settings hold: those a node was started with, with what the metadata log says over them."""

from penstock.metadata.image.image import Image
from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId
from penstock.model.settings.broker import BrokerSettings, with_dynamic
from penstock.model.settings.groups import GroupSettings
from penstock.model.settings.single_group import resolve_group
from penstock.model.settings.topic import TopicSettings, resolve_topic

CLUSTER_DEFAULT = ""


def effective_broker(static: BrokerSettings, image: Image, node_id: NodeId) -> BrokerSettings:
    """What a broker obeys: its own dynamic settings, else the cluster's, else its static ones."""
    return with_dynamic(
        static,
        cluster=image.config(ResourceKind.BROKER, CLUSTER_DEFAULT),
        broker=image.config(ResourceKind.BROKER, str(node_id)),
    )


def effective_topic(topic: str, image: Image, broker: BrokerSettings) -> TopicSettings:
    """What a topic obeys on a broker whose effective settings are given."""
    return resolve_topic(image.config(ResourceKind.TOPIC, topic), broker)


def effective_group(group_id: str, image: Image, settings: GroupSettings) -> GroupSettings:
    """What the coordinator obeys for a group: the group's own settings over the broker's."""
    return resolve_group(image.config(ResourceKind.GROUP, group_id), settings)
