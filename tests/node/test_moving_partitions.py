"""Partitions move between the nodes of a cluster, and nothing is lost on the way."""

import threading

import pytest
from confluent_kafka import Consumer

from penstock.model.error import ErrorCode
from penstock.testing import Broker
from rig.failover.replica_logs import differences
from rig.reassigning import (
    WAIT_S_MAX,
    begin,
    create_on,
    ongoing,
    reassign,
    shown,
    until,
    until_settled,
)

NODES = (1, 2, 3, 4)
FOUR_NODES = pytest.mark.penstock(nodes=4, settings={"min.insync.replicas": 2})


def values(broker: Broker, topic: str) -> list[int]:
    return [int(record.value or b"") for record in broker.records(topic)]


def numbers(start: int, end: int) -> list[str]:
    return [str(number) for number in range(start, end)]


def holders(broker: Broker, topic: str, partition: int = 0) -> set[int]:
    """The nodes that have the files of a partition."""
    return {
        node for node in NODES if (broker.data / f"node-{node}" / f"{topic}-{partition}").exists()
    }


def moved(broker: Broker, topic: str, *target: int) -> None:
    begin(broker.nodes[1], topic, *target)
    running = broker.nodes[min(broker.running)]
    until_settled(running)
    until("the old files are gone", lambda: holders(broker, topic) == set(target))
    partition = shown(running, topic)
    assert partition.replica_nodes == list(target)
    assert set(partition.isr_nodes) == set(target)


def equal(broker: Broker, topic: str, *nodes: int, watermark: int) -> None:
    replicas = {str(node): broker.data / f"node-{node}" / f"{topic}-0" for node in nodes}
    until(
        "the replicas are equal",
        lambda: not differences(replicas, watermark=watermark),
    )


@FOUR_NODES
def test_a_partition_moves_with_all_its_records(penstock: Broker) -> None:
    create_on(penstock.nodes[1], "orders", [[1, 2]])
    penstock.produce("orders", numbers(0, 100))
    moved(penstock, "orders", 3, 4)
    assert shown(penstock.nodes[2], "orders").leader_id == 3
    penstock.produce("orders", numbers(100, 200))
    assert values(penstock, "orders") == list(range(200))
    equal(penstock, "orders", 3, 4, watermark=200)


@FOUR_NODES
def test_a_partition_is_written_to_while_it_moves_round_and_round(penstock: Broker) -> None:
    create_on(penstock.nodes[1], "orders", [[1, 2]])
    ended = threading.Event()
    written: list[int] = []

    def write() -> None:
        while not ended.is_set():
            count = len(written)
            penstock.produce("orders", numbers(count, count + 10))
            written.extend(range(count, count + 10))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for target in ((3, 4), (4, 1), (2, 3), (1, 2)):
            moved(penstock, "orders", *target)
    finally:
        ended.set()
        writer.join()
    assert values(penstock, "orders") == written
    equal(penstock, "orders", 1, 2, watermark=len(written))


@FOUR_NODES
def test_replicas_are_added_and_taken_away(penstock: Broker) -> None:
    create_on(penstock.nodes[1], "orders", [[2]])
    penstock.produce("orders", numbers(0, 50))
    moved(penstock, "orders", 2, 3, 4)
    penstock.produce("orders", numbers(50, 100))
    moved(penstock, "orders", 4)
    assert values(penstock, "orders") == list(range(100))


@FOUR_NODES
def test_committed_offsets_move_with_their_partition(penstock: Broker) -> None:
    create_on(penstock.nodes[1], "orders", [[1]])
    penstock.produce("orders", numbers(0, 10))
    compact = {"cleanup.policy": "compact"}
    create_on(penstock.nodes[1], "__consumer_offsets", [[1, 2]], compact)
    assert taken(penstock, "readers", 10) == list(range(10))
    moved(penstock, "__consumer_offsets", 3, 4)
    penstock.produce("orders", numbers(10, 20))
    assert taken(penstock, "readers", 10) == list(range(10, 20))


def taken(broker: Broker, group: str, count: int) -> list[int]:
    """What a new member of a group reads, and commits."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    try:
        records = consumer.consume(count, timeout=WAIT_S_MAX)
        assert not [record.error() for record in records if record.error()]
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return [int(record.value() or b"") for record in records]


@FOUR_NODES
def test_a_node_that_was_down_when_it_was_removed_deletes_its_replica(penstock: Broker) -> None:
    create_on(penstock.nodes[1], "orders", [[3, 4]], {"min.insync.replicas": "1"})
    penstock.produce("orders", numbers(0, 50))
    penstock.kill(4)
    begin(penstock.nodes[1], "orders", 3, 2)
    until_settled(penstock.nodes[1])
    assert 4 in holders(penstock, "orders")
    penstock.start(4)
    until("the old files are gone", lambda: holders(penstock, "orders") == {2, 3})
    assert values(penstock, "orders") == list(range(50))


@FOUR_NODES
def test_a_move_to_a_node_that_is_down_waits_for_it(penstock: Broker) -> None:
    create_on(penstock.nodes[1], "orders", [[1, 2]])
    penstock.produce("orders", numbers(0, 50))
    penstock.kill(4)
    begin(penstock.nodes[1], "orders", 3, 4)
    until("the living one is in sync", lambda: 3 in shown(penstock.nodes[1], "orders").isr_nodes)
    [move] = ongoing(penstock.nodes[2])
    assert (move.replicas, move.adding_replicas, move.removing_replicas) == (
        [3, 4, 1, 2],
        [3, 4],
        [1, 2],
    )
    penstock.produce("orders", numbers(50, 100))
    penstock.start(4)
    until_settled(penstock.nodes[1])
    until("the old files are gone", lambda: holders(penstock, "orders") == {3, 4})
    assert values(penstock, "orders") == list(range(100))


@FOUR_NODES
def test_a_cancelled_move_leaves_everything_where_it_was(penstock: Broker) -> None:
    create_on(penstock.nodes[1], "orders", [[1, 2]])
    penstock.produce("orders", numbers(0, 50))
    penstock.kill(4)
    begin(penstock.nodes[1], "orders", 3, 4)
    until("the living one is in sync", lambda: 3 in shown(penstock.nodes[1], "orders").isr_nodes)
    [result] = reassign(penstock.nodes[3], "orders", {0: None})
    assert result.error_code == ErrorCode.NONE
    assert ongoing(penstock.nodes[1]) == []
    until("the new files are gone", lambda: holders(penstock, "orders") == {1, 2})
    assert set(shown(penstock.nodes[3], "orders").replica_nodes) == {1, 2}
    assert values(penstock, "orders") == list(range(50))
    [result] = reassign(penstock.nodes[3], "orders", {0: None})
    assert result.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@FOUR_NODES
def test_it_goes_on_under_another_controller(penstock: Broker) -> None:
    active = penstock.active_controller()
    first, second, third = (node for node in NODES if node != active)
    create_on(penstock.nodes[first], "orders", [[first]], {"min.insync.replicas": "1"})
    penstock.produce("orders", numbers(0, 50))
    penstock.kill(third)
    begin(penstock.nodes[first], "orders", second, third)
    penstock.kill(active)
    penstock.start(third)
    until_settled(penstock.nodes[first])
    assert shown(penstock.nodes[first], "orders").replica_nodes == [second, third]
    penstock.start(active)
    assert values(penstock, "orders") == list(range(50))


@FOUR_NODES
def test_what_cannot_be_is_refused_in_one_line(penstock: Broker) -> None:
    create_on(penstock.nodes[1], "orders", [[1, 2]])
    for target, message in (
        ([1, 9], "The manual partition assignment includes broker 9, but no such broker"),
        ([], "The manual partition assignment includes an empty replica list."),
        ([1, 1], "The manual partition assignment includes the broker 1 more than once."),
    ):
        [result] = reassign(penstock.nodes[2], "orders", {0: target})
        assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert message in (result.error_message or "")
    assert ongoing(penstock.nodes[3]) == []
    assert shown(penstock.nodes[1], "orders").replica_nodes == [1, 2]
