"""Which settings are in effect: those a node was started with, overridden by the metadata log."""

from penstock.metadata.image.image import Image
from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId
from penstock.model.settings.broker import BrokerSettings, with_dynamic
from penstock.model.settings.groups import GroupSettings
from penstock.model.settings.single_group import resolve_group
from penstock.model.settings.topic import TopicSettings, resolve_topic

CLUSTER_DEFAULT = ""


def effective_broker(static: BrokerSettings, image: Image, node_id: NodeId) -> BrokerSettings:
    """The settings of a broker: its own dynamic ones, else the cluster's, else its static ones."""
    return with_dynamic(
        static,
        cluster=image.config(ResourceKind.BROKER, CLUSTER_DEFAULT),
        broker=image.config(ResourceKind.BROKER, str(node_id)),
    )


def effective_topic(topic: str, image: Image, broker: BrokerSettings) -> TopicSettings:
    """The settings of a topic on a broker with these effective settings."""
    return resolve_topic(image.config(ResourceKind.TOPIC, topic), broker)


def effective_group(group_id: str, image: Image, settings: GroupSettings) -> GroupSettings:
    """The settings of a group for the coordinator: the group's own, else the broker's."""
    return resolve_group(image.config(ResourceKind.GROUP, group_id), settings)
