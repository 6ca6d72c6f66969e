"""What a node is started with: its directory and its settings.

DIR/node-<id>/           meta.properties, checkpoints, one folder a partition
log.dirs, log.dir        partitions live there instead, when either is given, and nothing in DIR
metadata.log.dir         the metadata log and node.pid live there, else in the first of them
"""

import os.path
from dataclasses import field, replace
from types import MappingProxyType

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.cluster_node import ClusterNode, cluster_node
from penstock.model.settings.setting import InvalidSetting
from penstock.node.authentications import check_logins


def node_directory(data_directory: str, node_id: NodeId) -> str:
    return os.path.join(data_directory, f"node-{node_id}")


def log_directories(
    settings: BrokerSettings, *, data_directory: str, node_id: NodeId
) -> tuple[str, ...]:
    """Where the node's partitions are; where its metadata is too, unless `metadata.log.dir` says
    otherwise.
    """
    if "log.dirs" in settings.given or "log.dir" in settings.given:
        return settings.directories
    return (node_directory(data_directory, node_id),)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """A configuration that this node can run; InvalidSetting for one that asks for more."""

    node_id: NodeId
    data_directory: str  # DIR above: that of all nodes on this machine
    settings: BrokerSettings = field(default_factory=BrokerSettings)
    process_id: int | None = None  # written to node.pid, where the node is a process of its own
    config_file: str | None = None  # where the settings are from, to be named in errors
    cluster: ClusterNode = field(init=False)  # what the settings make of it in its cluster

    def __post_init__(self) -> None:
        object.__setattr__(self, "cluster", cluster_node(self.settings, self.node_id))
        self._check_security()

    @property
    def node_directory(self) -> str:
        return node_directory(self.data_directory, self.node_id)

    @property
    def metadata_directory(self) -> str:
        given = self.settings.metadata_log_dir
        return self.log_directories[0] if given is None else given

    @property
    def log_directories(self) -> tuple[str, ...]:
        return log_directories(
            self.settings, data_directory=self.data_directory, node_id=self.node_id
        )

    @property
    def complete_settings(self) -> BrokerSettings:
        """The settings with those that the node's id and directory stand for. DescribeConfigs tells
        them as given at the start, as they are to Apache Kafka, which does not start without them.
        """
        node_id = str(self.node_id)
        given = {"node.id": node_id, "broker.id": node_id, **self.settings.given}
        # In a list of directories a comma would end the name of one.
        if "log.dir" not in given and "," not in self.node_directory:
            given.setdefault("log.dirs", self.node_directory)
        return replace(self.settings, given=MappingProxyType(given))

    def _check_security(self) -> None:
        """What is to protect this node and cannot do so yet keeps it from starting."""
        given = self.settings.given
        check_logins(self.settings, self.cluster)
        for name in ("create.topic.policy.class.name", "alter.config.policy.class.name"):
            if given.get(name):
                self._refuse(name, "Policies are Java classes, which this broker cannot run")

    def _refuse(self, name: str, expected: str) -> None:
        raise InvalidSetting(name=name, value=self.settings.given.get(name), expected=expected)
