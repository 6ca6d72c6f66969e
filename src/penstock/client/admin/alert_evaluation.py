"""Whether somebody evaluates an alert still. Nobody tells the end of one that nobody evaluates: its
last report stays in the topic, and is what was so when it was written.
"""

import asyncio
from collections.abc import Collection, Iterable
from enum import Enum

from penstock.alerts.machine import State
from penstock.alerts.report import Report
from penstock.alerts.rule import Scope
from penstock.client.admin.configs import Resource, describe_configs
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Refused
from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId

ALERTS_ENABLE = "penstock.alerts.enable"
ASK_MS_MAX = 5_000


class Evaluated(Enum):
    YES = "yes"  # as far as anybody knows
    AWAY = "away"  # the node that wrote the report does not run
    OFF = "off"  # that node, or for the cluster's alerts each broker, does not evaluate alerts


def evaluated(report: Report, *, brokers: Collection[NodeId], off: Collection[NodeId]) -> Evaluated:
    """`brokers` are those that run, `off` those of them that do not evaluate alerts. Of controllers
    that are no brokers nothing is known. What has cleared has an end.
    """
    if not report.is_broker:
        return Evaluated.YES
    node = NodeId(report.node)
    is_away = node not in brokers
    if report.scope is Scope.CLUSTER:
        # Whichever node told it: any other broker may have to tell its end.
        is_off = len(brokers) > 0 and all(one in off for one in brokers)
    else:
        is_off = not is_away and node in off
    if is_off and report.state is not State.CLEARED:
        return Evaluated.OFF
    return Evaluated.AWAY if is_away else Evaluated.YES


def brokers_to_ask(reports: Iterable[Report], brokers: Collection[NodeId]) -> set[NodeId]:
    """Those whose settings say whether these alerts are evaluated."""
    found: set[NodeId] = set()
    for report in reports:
        if report.state is State.CLEARED:
            continue
        if report.scope is Scope.CLUSTER:
            return set(brokers)
        found.add(NodeId(report.node))
    return found & set(brokers)


async def switched_off(cluster: Cluster, brokers: Iterable[NodeId]) -> frozenset[NodeId]:
    """Those that do not evaluate alerts by their own word: not those that give no answer in time,
    refuse it, or do not know the setting, as Apache Kafka.
    """
    async with asyncio.TaskGroup() as tasks:
        asked = {node: tasks.create_task(_is_off(cluster, node)) for node in brokers}
    return frozenset(node for node, task in asked.items() if task.result())


async def _is_off(cluster: Cluster, node: NodeId) -> bool:
    resource = Resource(ResourceKind.BROKER, str(node))
    try:
        async with asyncio.timeout(ASK_MS_MAX / 1000):
            entries = (await describe_configs(cluster, [resource], names=[ALERTS_ENABLE]))[resource]
    except (ClientError, TimeoutError):
        return False
    if isinstance(entries, Refused):
        return False
    return any(entry.name == ALERTS_ENABLE and entry.value == "false" for entry in entries)
