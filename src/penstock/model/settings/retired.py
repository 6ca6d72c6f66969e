"""Broker settings that Apache Kafka had once and has no more.

Files carry them for years. Apache Kafka ignores them; so does Penstock, and names them at start,
with what took their place. They are never taken for typos of settings that have similar names.

Refused are those that cannot be ignored without surprise: addresses, since the node would listen
elsewhere; the encryption of stored passwords, since nothing is encrypted; and ZooKeeper mode, since
the metadata of such a cluster is in ZooKeeper and the node would start without its topics. A
`zookeeper.connect` that was left in a file with `process.roles`, which is a file of KRaft mode, is
ignored.
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.setting import InvalidSetting

ZOOKEEPER_PREFIX = "zookeeper."
NO_ZOOKEEPER = "No ZooKeeper is needed, as in Apache Kafka since version 4"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredSetting:
    """A name of the past: the major version that dropped it, and what to use instead."""

    name: str
    since: str
    instead: str | None = None


# Name, the version without it, what to use instead.
_TABLE = """
auto.include.jmx.reporter 4 metric.reporters
broker.id.generation.enable 4 node.id
control.plane.listener.name 4 controller.listener.names
controlled.shutdown.max.retries 4
controlled.shutdown.retry.backoff.ms 4
delegation.token.master.key 4 delegation.token.secret.key
eligible.leader.replicas.enable 4
group.coordinator.new.enable 4 group.coordinator.rebalance.protocols
inter.broker.protocol.version 4
leader.imbalance.per.broker.percentage 4
log.message.downconversion.enable 4
log.message.format.version 4
log.message.timestamp.difference.max.ms 4 log.message.timestamp.before.max.ms
max.id.map.snapshots 3
metadata.log.segment.min.bytes 4 metadata.log.segment.bytes
metrics.jmx.blacklist 4
metrics.jmx.whitelist 4
offsets.commit.required.acks 4
password.encoder.cipher.algorithm 4
password.encoder.iterations 4
password.encoder.key.length 4
password.encoder.keyfactory.algorithm 4
quota.consumer.default 3
quota.producer.default 3
replica.lag.max.messages 0.9 replica.lag.time.max.ms
reserved.broker.max.id 4
unstable.metadata.versions.enable 3 unstable.feature.versions.enable
"""
RETIRED: Mapping[str, RetiredSetting] = MappingProxyType(
    {
        name: RetiredSetting(name=name, since=since, instead=instead[0] if instead else None)
        for name, since, *instead in map(str.split, _TABLE.strip().splitlines())
    }
)

# What to do, by the names that are refused.
_REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "port": "use listeners=PLAINTEXT://HOST:PORT",
        "host.name": "use listeners=PLAINTEXT://HOST:PORT",
        "advertised.port": "use advertised.listeners=PLAINTEXT://HOST:PORT",
        "advertised.host.name": "use advertised.listeners=PLAINTEXT://HOST:PORT",
        "password.encoder.secret": "passwords are stored as they are; remove it",
        "password.encoder.old.secret": "passwords are stored as they are; remove it",
    }
)


def retired_setting(name: str) -> RetiredSetting | None:
    """What is known of a name that may be ignored; None when it is no such name."""
    if name.startswith(ZOOKEEPER_PREFIX):
        return RetiredSetting(name=name, since="4")
    return RETIRED.get(name)


def refuse_retired(values: Mapping[str, str]) -> None:
    """InvalidSetting for the first name of the past that must not be ignored."""
    for name in sorted(values):
        if name in _REFUSED:
            shown = "[hidden]" if name.endswith("secret") else values[name]
            expected = f"Retired by Apache Kafka, and not ignored here: {_REFUSED[name]}"
            raise InvalidSetting(name=name, value=shown, expected=expected)
    if "zookeeper.connect" in values and "process.roles" not in values:
        names = ", ".join(sorted(name for name in values if name.startswith(ZOOKEEPER_PREFIX)))
        raise InvalidSetting(
            name="zookeeper.connect",
            value=values["zookeeper.connect"],
            expected=f"{NO_ZOOKEEPER}, and nothing is read from one: remove {names}",
        )
    if values.get("zookeeper.metadata.migration.enable", "").strip().lower() == "true":
        raise InvalidSetting(
            name="zookeeper.metadata.migration.enable",
            value=values["zookeeper.metadata.migration.enable"],
            expected=f"{NO_ZOOKEEPER}, and its metadata cannot be moved here: remove it",
        )
