"""A change of the metadata costs what it changes, however many partitions there are beside it.

Counted are calls, of the decision, the controller's state and the image together: they are the same
on any machine.
"""

from collections.abc import Callable
from functools import partial

import pytest

from penstock.model.configs import Operation, ResourceKind
from penstock.model.identity import NodeId
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from rig.calls import count_all_calls
from rig.cluster import Cluster
from rig.replicated_topic import add_topic

ONE, TWO, THREE, FOUR, FIVE, SIX = map(NodeId, range(1, 7))
FEW, MANY = 20, 1_000  # topics
GROWTH_MAX = 1.1


def cluster_beside(topics: int) -> Cluster:
    """With `orders` on brokers of its own, and as many other topics."""
    cluster = Cluster(6)
    cluster.check_state = cluster.check_image = False
    add_topic(cluster, "orders", FOUR, FIVE, SIX)
    for number in range(topics):
        add_topic(cluster, f"beside-{number}", ONE, TWO, THREE, retention_ms="1000")
    return cluster


def create_topic(cluster: Cluster) -> None:
    add_topic(cluster, "payments", FOUR, FIVE, SIX)


def alter_config(cluster: Cluster) -> None:
    change = AlterableConfig(name="retention.ms", config_operation=Operation.SET, value="2000")
    resource = AlterConfigsResource(
        resource_type=ResourceKind.TOPIC, resource_name="orders", configs=[change]
    )
    cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))


def alter_partition(cluster: Cluster) -> None:
    cluster.alter_isr("orders", FOUR, FIVE)


def heartbeat(cluster: Cluster) -> None:
    cluster.heartbeat(FOUR)


def fence(cluster: Cluster) -> None:
    cluster.fence(FOUR)


def fence_and_unfence(cluster: Cluster) -> None:
    cluster.fence(FOUR)
    cluster.unfence(FOUR)


def register_again(cluster: Cluster) -> None:
    cluster.register(FOUR, incarnation=1)


@pytest.mark.parametrize(
    "change",
    [
        create_topic,
        alter_config,
        alter_partition,
        heartbeat,
        fence,
        fence_and_unfence,
        register_again,
    ],
)
def test_a_change_takes_as_many_calls_beside_many_topics_as_beside_few(
    change: Callable[[Cluster], None],
) -> None:
    change(cluster_beside(1))  # methods are compiled at their first call
    few = count_all_calls(partial(change, cluster_beside(FEW)))
    many = count_all_calls(partial(change, cluster_beside(MANY)))
    assert 0 < many <= few * GROWTH_MAX
