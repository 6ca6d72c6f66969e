"""A plan of balance is made beside the event loop, and ends when nobody waits for it."""

import asyncio
import contextlib
import threading

from penstock.client.admin.balancing import plan_for
from penstock.client.admin.partition_rates import PartitionRate
from penstock.client.network.routing import BrokerView, ClusterView, PartitionView, TopicView
from penstock.model.identity import NO_TOPIC_ID, NodeId, TopicPartition
from penstock.model.offset import LeaderEpoch
from penstock.world.ports import Address

PARTITIONS = 60
WAIT_SECONDS_MAX = 60


def all_on_the_first_broker() -> tuple[ClusterView, list[PartitionRate]]:
    partitions = tuple(
        PartitionView(
            index=index,
            leader=NodeId(1),
            leader_epoch=LeaderEpoch(0),
            replicas=(NodeId(1),),
            in_sync=(NodeId(1),),
        )
        for index in range(PARTITIONS)
    )
    topic = TopicView(name="t", topic_id=NO_TOPIC_ID, internal=False, partitions=partitions)
    brokers = {
        NodeId(node): BrokerView(node_id=NodeId(node), address=Address(host="h", port=node))
        for node in (1, 2, 3)
    }
    rates = [
        PartitionRate(
            partition=TopicPartition("t", index),
            records=1,
            in_bytes=100,
            out_bytes=0,
            size_bytes=1_000,
        )
        for index in range(PARTITIONS)
    ]
    return ClusterView(brokers=brokers, topics={"t": topic}), rates


def test_the_loop_goes_on_while_a_plan_is_made_and_the_plan_ends_when_it_is_cancelled() -> None:
    shares: list[float] = []
    go_on = threading.Event()

    async def work() -> None:
        loop = asyncio.get_running_loop()
        begun = asyncio.Event()

        def shown(done: float) -> None:
            shares.append(done)
            loop.call_soon_threadsafe(begun.set)
            assert go_on.wait(WAIT_SECONDS_MAX)

        view, rates = all_on_the_first_broker()
        planning = asyncio.create_task(plan_for(view, rates, limit=1.3, shown=shown))
        await begun.wait()
        planning.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await planning
        assert planning.cancelled()
        go_on.set()
        await loop.shutdown_default_executor()

    asyncio.run(work())
    assert len(shares) == 1, "no further step was looked for"


def test_a_plan_is_what_was_asked_for() -> None:
    view, rates = all_on_the_first_broker()
    plan = asyncio.run(plan_for(view, rates, limit=1.3))
    assert plan.is_balanced
    assert len(plan.changes) == PARTITIONS - 26
