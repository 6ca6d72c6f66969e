"""A node fetches from another one over one connection, however many partitions it follows there."""

from contextlib import closing

import psutil
import pytest

from penstock.model.error import ErrorCode
from penstock.testing import Broker
from penstock.wire.messages.elect_leaders import ElectLeadersRequest
from rig.cluster_questions import until
from rig.dialogue import Dialogue
from rig.failover.questions import partition_states

NODES = (1, 2, 3)
PARTITIONS = 30
PREFERRED = 0
# Leaders change when the test says so.
ONE_PROCESS = pytest.mark.penstock(nodes=3, settings={"auto.leader.rebalance.enable": False})


@ONE_PROCESS
def test_replicas_are_fetched_over_one_connection_from_each_node_that_leads_some(
    penstock: Broker,
) -> None:
    topic = penstock.topic(partitions=PARTITIONS)
    until_all_in_sync(penstock, topic, led_by={1, 2, 3})
    until_followed(penstock, topic, {1: 2, 2: 2, 3: 2})

    penstock.kill(3)
    penstock.start(3)
    until_all_in_sync(penstock, topic, led_by={1, 2})
    until_followed(penstock, topic, {1: 2, 2: 2, 3: 0})

    elect_preferred(penstock)
    until_all_in_sync(penstock, topic, led_by={1, 2, 3})
    until_followed(penstock, topic, {1: 2, 2: 2, 3: 2})


def until_all_in_sync(broker: Broker, topic: str, *, led_by: set[int]) -> None:
    def are_in_sync() -> bool:
        states = partition_states(broker.nodes[1], topic).values()
        return {one.leader for one in states} == led_by and all(
            one.in_sync == one.replicas == set(NODES) for one in states
        )

    until(f"in sync, led by {led_by}", are_in_sync)


def until_followed(broker: Broker, topic: str, counts: dict[int, int]) -> None:
    """Until there are just so many connections to the address of each node. All of them are of
    followers: clients have closed theirs by then, and controllers listen elsewhere. Two connections
    to a leader are one for each follower, because acks have waited for both.
    """
    broker.produce(topic, [(str(key), "value") for key in range(10 * PARTITIONS)])
    assert len({record.partition for record in broker.records(topic)}) == PARTITIONS
    node_at = {int(address.rpartition(":")[2]): node for node, address in broker.nodes.items()}

    def as_counted() -> bool:
        found = dict.fromkeys(NODES, 0)
        for one in psutil.Process().net_connections("tcp"):
            if one.raddr and one.raddr.port in node_at:
                found[node_at[one.raddr.port]] += 1
        return found == counts

    until(f"connections to nodes: {counts}", as_counted)


def elect_preferred(broker: Broker) -> None:
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout_ms=10_000)
    with closing(Dialogue(broker.nodes[1], "")) as dialogue:
        reply = dialogue.exchange(request, version=2)
    assert reply.error_code == ErrorCode.NONE, reply
