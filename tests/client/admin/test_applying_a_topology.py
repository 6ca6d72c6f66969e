"""A topology that is applied while others make the same topics."""

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.client.admin.admin import Admin
from penstock.client.admin.topology import WantedTopic
from penstock.client.admin.topology_apply import apply_topology
from penstock.client.admin.topology_plan import AddPartitions, CreateTopic, SetSettings
from penstock.client.network.cluster import Cluster

SETTINGS = {"retention.ms": "60000"}


def test_topic_that_another_made_meanwhile_is_altered(
    with_cluster: Callable[[Callable[[Cluster], Any]], Any],
) -> None:
    small = {"a": WantedTopic(name="a", partitions=2)}
    large = {"a": WantedTopic(name="a", partitions=5, settings=SETTINGS)}

    async def work(cluster: Cluster) -> None:
        # Both find no topic; the broker takes requests of one connection in their order.
        first, second = await asyncio.gather(
            apply_topology(cluster, small, more_partitions=True), apply_topology(cluster, large)
        )
        assert first == [CreateTopic(topic=small["a"])]
        assert second == [
            AddPartitions(name="a", count=5),
            SetSettings(name="a", settings=SETTINGS),
        ]
        assert len((await Admin(cluster).topics()).topics["a"].partitions) == 5
        assert await apply_topology(cluster, large) == []

    with_cluster(work)
