"""A topic of three replicas: they are equal, and the loss of a node loses nothing."""

import time

import pytest
from confluent_kafka.admin import AdminClient

from penstock.testing import Broker
from rig.failover.replica_logs import differences

NODES = (1, 2, 3)
WAIT_S_MAX = 60
THREE_REPLICAS = pytest.mark.penstock(nodes=3, settings={"min.insync.replicas": 2})


def values(broker: Broker, topic: str) -> list[int]:
    return [int(record.value or b"") for record in broker.records(topic)]


def numbers(start: int, end: int) -> list[str]:
    return [str(number) for number in range(start, end)]


def leader_of(broker: Broker, topic: str) -> int:
    leader = broker.leader(topic)
    assert leader is not None
    return leader


def await_equal(broker: Broker, topic: str, *, partition: int = 0, watermark: int) -> None:
    """Until all replicas have the same batches below the watermark."""
    replicas = {str(node): broker.data / f"node-{node}" / f"{topic}-{partition}" for node in NODES}
    deadline = time.monotonic() + WAIT_S_MAX
    while faults := differences(replicas, watermark=watermark):
        assert time.monotonic() < deadline, faults
        time.sleep(0.01)


@THREE_REPLICAS
def test_replicas_are_equal(penstock: Broker) -> None:
    topic = penstock.topic(partitions=3)
    for index in range(3):
        penstock.produce(topic, numbers(0, 200), partition=index)
    assert len(penstock.records(topic)) == 600
    for index in range(3):
        await_equal(penstock, topic, partition=index, watermark=200)


@THREE_REPLICAS
def test_the_loss_of_a_leader_loses_nothing(penstock: Broker) -> None:
    topic = penstock.topic(partitions=1)
    penstock.produce(topic, numbers(0, 100))
    leader = leader_of(penstock, topic)
    penstock.kill(leader)
    penstock.produce(topic, numbers(100, 200))
    assert values(penstock, topic) == list(range(200))
    penstock.start(leader)
    penstock.produce(topic, numbers(200, 300))
    assert values(penstock, topic) == list(range(300))
    await_equal(penstock, topic, watermark=300)


@THREE_REPLICAS
def test_each_leader_in_turn_is_lost_and_comes_back(penstock: Broker) -> None:
    topic = penstock.topic(partitions=1)
    for count in range(0, 400, 100):
        penstock.produce(topic, numbers(count, count + 50))
        leader = leader_of(penstock, topic)
        penstock.kill(leader)
        penstock.produce(topic, numbers(count + 50, count + 100))
        penstock.start(leader)
    assert values(penstock, topic) == list(range(400))
    await_equal(penstock, topic, watermark=400)


@THREE_REPLICAS
def test_a_rolling_restart_keeps_everything(penstock: Broker) -> None:
    topic = penstock.topic(partitions=3)
    for count, node in enumerate(NODES):
        for index in range(3):
            penstock.produce(topic, numbers(20 * count, 20 * count + 10), partition=index)
        penstock.stop(node)
        for index in range(3):
            penstock.produce(topic, numbers(20 * count + 10, 20 * count + 20), partition=index)
        penstock.start(node)
    for index in range(3):
        await_equal(penstock, topic, partition=index, watermark=60)
    assert len(penstock.records(topic)) == 180


@THREE_REPLICAS
def test_all_nodes_at_once_are_lost_and_come_back(penstock: Broker) -> None:
    topic = penstock.topic(partitions=1)
    penstock.produce(topic, numbers(0, 100))
    penstock.kill()
    penstock.start()
    assert values(penstock, topic) == list(range(100))
    penstock.produce(topic, numbers(100, 200))
    assert values(penstock, topic) == list(range(200))
    await_equal(penstock, topic, watermark=200)


@THREE_REPLICAS
def test_with_fsync_acks_followers_sync_too(penstock: Broker) -> None:
    topic = penstock.topic(partitions=2, penstock_ack_fsync=True)
    for index in range(2):
        penstock.produce(topic, numbers(0, 100), partition=index)
    leader = leader_of(penstock, topic)
    penstock.kill(leader)
    penstock.produce(topic, numbers(100, 200), partition=0)
    penstock.start(leader)
    await_equal(penstock, topic, watermark=200)


@THREE_REPLICAS
def test_a_follower_that_was_away_catches_up(penstock: Broker) -> None:
    topic = penstock.topic(partitions=1, segment_bytes=2**20)
    penstock.produce(topic, ["first"])
    follower = next(node for node in NODES if node != leader_of(penstock, topic))
    penstock.stop(follower)
    penstock.produce(topic, ["x" * 50_000 for _ in range(100)])
    penstock.start(follower)
    await_equal(penstock, topic, watermark=101)


@pytest.mark.penstock(nodes=3, settings={"controlled.shutdown.enable": False})
def test_a_broker_that_stops_without_a_word_is_replaced_as_after_a_kill(penstock: Broker) -> None:
    topic = penstock.topic(partitions=1)
    penstock.produce(topic, numbers(0, 100))
    penstock.stop(leader_of(penstock, topic))
    penstock.produce(topic, numbers(100, 200))
    assert values(penstock, topic) == list(range(200))


@THREE_REPLICAS
def test_a_topic_that_is_deleted_and_made_again_is_replicated_from_its_start(
    penstock: Broker,
) -> None:
    for _ in range(3):
        topic = penstock.topic("orders", partitions=1)
        penstock.produce(topic, numbers(0, 10))
        await_equal(penstock, topic, watermark=10)
        delete_topic(penstock, topic)
    topic = penstock.topic("orders", partitions=1)
    penstock.produce(topic, ["0"])
    await_equal(penstock, topic, watermark=1)
    assert values(penstock, topic) == [0]


def delete_topic(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result()
