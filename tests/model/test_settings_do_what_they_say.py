"""A setting counts as effective exactly when some rule reads it; the others are named at start."""

import re

from penstock.model.settings.broker import USED_SETTINGS
from penstock.model.settings.groups import GROUP_SETTINGS
from penstock.model.settings.topic import TOPIC_SETTINGS
from rig.source_tree import PACKAGE, modules

RULES = "\n".join(
    path.read_text() for path in modules() if PACKAGE / "model" / "settings" not in path.parents
)
# What a setting is called in the description of a node in its cluster.
CLUSTER_NODE = (PACKAGE / "model" / "settings" / "cluster_node.py").read_text()
NAMES_IN_CLUSTER = {
    field: name for name, field in re.findall(r"(\w+)=settings\.(\w+)", CLUSTER_NODE)
}
# Read by properties of BrokerSettings, in the terms of the listeners that they describe, and by
# `cluster_node`; the size of a segment by another name; and the bounds of what a group may set for
# itself. Whether an election may be unclean is read from the metadata, by its name.
# Providers are declared in what other settings are read from.
READ_WITHIN = {
    "config.providers",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.min.session.timeout.ms",
    "inter.broker.listener.name",
    "internal.segment.bytes",
    "listener.security.protocol.map",
    "process.roles",
    "security.inter.broker.protocol",
    "unclean.leader.election.enable",
}


def is_read(field: str) -> bool:
    name = NAMES_IN_CLUSTER.get(field)
    return any(
        re.search(rf"\.{one}\b", RULES) is not None for one in (field, name) if one is not None
    )


def test_a_topic_setting_is_effective_exactly_when_it_is_read() -> None:
    for name, setting in TOPIC_SETTINGS.items():
        if name not in READ_WITHIN:
            assert setting.effective == is_read(setting.field), name


def test_a_setting_of_groups_is_effective_exactly_when_it_is_read() -> None:
    for name, setting in GROUP_SETTINGS.items():
        if name not in READ_WITHIN:
            assert setting.effective == is_read(setting.field), name


def test_a_broker_setting_is_effective_exactly_when_it_or_its_topic_setting_is_read() -> None:
    topic_settings = {
        server.name: setting for setting in TOPIC_SETTINGS.values() for server in setting.servers
    }
    for name, setting in USED_SETTINGS.items():
        if name in READ_WITHIN:
            continue
        through = topic_settings.get(name)
        read = is_read(setting.field) or (through is not None and through.effective)
        assert setting.effective == read, name
