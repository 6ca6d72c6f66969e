"""Throttles of reassignments, by the settings that Apache Kafka's own tool uses.

A rate is a setting of each broker, in bytes a second. Which replicas it holds back is a setting of
each topic: the copies to read from (`leader`), and those that are made (`follower`). A throttle
that is left behind holds back every later copy, so whoever sets one removes it: `throttles` finds
what is set.

A broker answers for its own rate. One that cannot be reached copies nothing either, so that it is
left out: partitions can be moved away from it. The settings of topics are removed without it, and a
rate that it keeps has no effect then.
"""

from collections.abc import Iterable, Mapping, Sequence

from penstock.client.admin.admin import first_refusal
from penstock.client.admin.configs import (
    Change,
    Entry,
    Resource,
    alter_configs,
    describe_configs,
)
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ConnectionLost, Refused, Unreachable
from penstock.model.configs import Operation, ResourceKind, Source
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
RATES = (LEADER_RATE, FOLLOWER_RATE)
REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
GONE = (Unreachable, ConnectionLost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """From the replicas that a partition has to those that it shall have."""

    partition: TopicPartition
    replicas: tuple[NodeId, ...]
    target: tuple[NodeId, ...]

    @property
    def added(self) -> tuple[NodeId, ...]:
        return tuple(node for node in self.target if node not in self.replicas)

    @property
    def brokers(self) -> frozenset[NodeId]:
        return frozenset(self.replicas) | frozenset(self.target)


def throttled_replicas(moves: Iterable[Move]) -> dict[str, dict[str, str]]:
    """The settings of each topic: `partition:broker` of those who send, and of those who copy."""
    senders: dict[str, list[str]] = {}
    copies: dict[str, list[str]] = {}
    for move in moves:
        topic, index = move.partition
        if not move.added:
            continue
        senders.setdefault(topic, []).extend(f"{index}:{node}" for node in move.replicas)
        copies.setdefault(topic, []).extend(f"{index}:{node}" for node in move.added)
    return {
        topic: {LEADER_REPLICAS: ",".join(listed), FOLLOWER_REPLICAS: ",".join(copies[topic])}
        for topic, listed in senders.items()
    }


async def throttle(cluster: Cluster, moves: Sequence[Move], *, rate_bytes: int) -> None:
    """Holds back the copies of these moves. What is set on the same topics is replaced."""
    changes: dict[Resource, list[Change]] = {}
    for topic, settings in throttled_replicas(moves).items():
        changes[Resource(ResourceKind.TOPIC, topic)] = [
            Change(name=name, operation=Operation.SET, value=value)
            for name, value in settings.items()
        ]
    rates = [Change(name=name, operation=Operation.SET, value=str(rate_bytes)) for name in RATES]
    for node in sorted({node for move in moves if move.added for node in move.brokers}):
        changes[Resource(ResourceKind.BROKER, str(node))] = rates
    first_refusal((await _alter(cluster, changes)).values())


async def throttles(
    cluster: Cluster, topics: Iterable[str], brokers: Iterable[NodeId]
) -> dict[Resource, list[str]]:
    """Which of these have settings of throttles now. A topic that was deleted has none."""
    asked = [[Resource(ResourceKind.TOPIC, topic) for topic in topics]]
    asked += [[Resource(ResourceKind.BROKER, str(node))] for node in brokers]
    described: dict[Resource, list[Entry] | Refused] = {}
    for resources in asked:
        try:
            described.update(await describe_configs(cluster, resources))
        except GONE:
            if resources is asked[0]:
                raise
    found: dict[Resource, list[str]] = {}
    for resource, entries in described.items():
        if _is_deleted(resource, entries):
            continue
        if isinstance(entries, Refused):
            raise entries
        names, own = _OWN[resource.kind]
        there = [one.name for one in entries if one.name in names and one.source is own]
        if there:
            found[resource] = there
    return found


async def remove_throttles(cluster: Cluster, there: Mapping[Resource, Sequence[str]]) -> None:
    """A topic that was deleted meanwhile has none any more."""
    changes = {
        resource: [Change(name=name, operation=Operation.DELETE) for name in names]
        for resource, names in there.items()
    }
    results = await _alter(cluster, changes)
    first_refusal(result for one, result in results.items() if not _is_deleted(one, result))


async def _alter(
    cluster: Cluster, changes: Mapping[Resource, Sequence[Change]]
) -> dict[Resource, Refused | None]:
    """Brokers one by one, before topics. Raises what a broker refuses, returns it of topics."""
    brokers = [one for one in changes if one.kind is ResourceKind.BROKER]
    for resource in brokers:
        try:
            results = await alter_configs(cluster, {resource: changes[resource]})
        except GONE:
            continue
        first_refusal(results.values())
    topics = {one: wanted for one, wanted in changes.items() if one not in brokers}
    return await alter_configs(cluster, topics)


def _is_deleted(resource: Resource, result: object) -> bool:
    return (
        resource.kind is ResourceKind.TOPIC
        and isinstance(result, Refused)
        and result.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


_OWN = {
    ResourceKind.TOPIC: (REPLICAS, Source.TOPIC),
    ResourceKind.BROKER: (RATES, Source.DYNAMIC_BROKER),
}
