"""Which settings are in effect: those a node was started with, overridden by the metadata log."""

from collections.abc import Mapping
from typing import Protocol

from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId
from penstock.model.settings.broker import BrokerSettings, with_dynamic
from penstock.model.settings.groups import GroupSettings
from penstock.model.settings.single_group import resolve_group
from penstock.model.settings.topic import TopicSettings, resolve_topic

CLUSTER_DEFAULT = ""


class Configured(Protocol):
    """What knows the settings in the metadata log: an image, or the controller's state."""

    def config(self, kind: ResourceKind, name: str) -> Mapping[str, str]:
        """What was set on one resource."""


def effective_broker(
    static: BrokerSettings, metadata: Configured, node_id: NodeId
) -> BrokerSettings:
    """The settings of a broker: its own dynamic ones, else the cluster's, else its static ones."""
    return with_dynamic(
        static,
        cluster=metadata.config(ResourceKind.BROKER, CLUSTER_DEFAULT),
        broker=metadata.config(ResourceKind.BROKER, str(node_id)),
    )


class BrokerSettingsInEffect:
    """The settings of one broker, worked out again only when the metadata says something new."""

    def __init__(self, static: BrokerSettings, node_id: NodeId) -> None:
        self._static = static
        self._node_id = node_id
        self._cluster: Mapping[str, str] = {}
        self._broker: Mapping[str, str] = {}
        self._settings = static

    def in_metadata(self, metadata: Configured) -> BrokerSettings:
        cluster = metadata.config(ResourceKind.BROKER, CLUSTER_DEFAULT)
        broker = metadata.config(ResourceKind.BROKER, str(self._node_id))
        if cluster != self._cluster or broker != self._broker:
            self._cluster, self._broker = dict(cluster), dict(broker)
            self._settings = effective_broker(self._static, metadata, self._node_id)
        return self._settings


def effective_topic(topic: str, metadata: Configured, broker: BrokerSettings) -> TopicSettings:
    """The settings of a topic on a broker with these effective settings."""
    return resolve_topic(metadata.config(ResourceKind.TOPIC, topic), broker)


def effective_group(group_id: str, metadata: Configured, settings: GroupSettings) -> GroupSettings:
    """The settings of a group for the coordinator: the group's own, else the broker's."""
    return resolve_group(metadata.config(ResourceKind.GROUP, group_id), settings)
