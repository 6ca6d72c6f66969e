"""A replica that could be elected has what was acked, whenever the producer was told so."""

import pytest

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.produce.producer import Producer
from penstock.model.identity import NodeId, TopicPartition
from penstock.sim.cluster.history import ClusterHistory
from penstock.sim.cluster.replica_watch import ReplicaWatch
from penstock.sim.errors import Violation
from rig.machines import Machines, address

ORDERS = TopicPartition("orders", 0)
NODE, HOST = NodeId(1), "node-1"


def test_an_acked_record_that_an_electable_replica_lacks_is_found_after_a_power_loss() -> None:
    """An ack that was under way meanwhile says nothing of how many replicas have the record."""

    async def scenario(machines: Machines) -> None:
        properties = {"node.id": str(NODE), "listeners": f"PLAINTEXT://{address(HOST)}"}
        await machines.start_node(HOST, properties).up.wait()
        async with machines.client("client", [address(HOST)]) as cluster:
            first_refusal((await Admin(cluster).create_topics([NewTopic(name="orders")])).values())
            async with Producer(cluster) as producer:
                told = await (await producer.send("orders", b"one"))
        watch = ReplicaWatch(
            machines.nodes, {NODE: HOST}, ClusterHistory(), in_sync_min=1, acks_synced=True
        )
        assert told.offset is not None
        sent_us = machines.loop.now_us
        watch.power_lost(NODE, now_us=sent_us)
        watch.acked(ORDERS, told.offset, sent_us=sent_us)
        watch.look()
        watch.acked(ORDERS, told.offset + 1, sent_us=sent_us)
        with pytest.raises(Violation, match=r"electable: replica 1 of orders-0 .* ends at 1, "):
            watch.look()

    Machines().run(scenario)
