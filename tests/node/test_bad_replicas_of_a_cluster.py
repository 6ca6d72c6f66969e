"""A replica that is not what it should be harms nothing, and the logs name it in one line.

Three nodes as processes, partitions with three replicas, min.insync.replicas=2. What is done to a
replica is done to its files, while its node is down.
"""

import shutil
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Message, Producer

from rig.clients.confluent import QUIET
from rig.cluster_questions import until
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware, ReplicatedCluster
from rig.failover.questions import (
    all_records,
    create_replicated,
    leader_of,
    partition_states,
    until_in_sync,
)
from rig.failover.replica_logs import batches_in, differences

NODES = (1, 2, 3)
BATCH_RECORDS = 20
ANOTHER_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    folder = tmp_path_factory.mktemp("bad-replicas") / "cluster"
    settings = {**BRISK_SESSIONS, "replica.high.watermark.checkpoint.interval.ms": "200"}
    with ReplicatedCluster(PenstockSoftware(), folder, settings=settings) as made:
        made.start()
        yield made


@pytest.fixture(autouse=True)
def all_nodes_run(cluster: ReplicatedCluster) -> None:
    for number, node in cluster.nodes.items():
        if not node.running:
            cluster.start(number)


def write(
    cluster: ReplicatedCluster, topic: str, *, partition: int = 0, first: int, count: int
) -> None:
    """Numbers as values, in batches of twenty, each acked by all that are in sync."""
    refused: list[KafkaError] = []

    def told(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "acks": "all",
        "linger.ms": 1000,
        "batch.num.messages": BATCH_RECORDS,
        "log_level": QUIET,
    }
    producer = Producer(settings)
    for number in range(first, first + count):
        producer.produce(topic, str(number).encode(), partition=partition, on_delivery=told)
    assert producer.flush(60) == 0
    assert not refused, refused


def values(cluster: ReplicatedCluster, topic: str, *, partitions: int = 1) -> list[int]:
    found = all_records(cluster.bootstrap, topic, partitions=partitions)
    return sorted(int(record.value) for record in found)


def a_follower(cluster: ReplicatedCluster, topic: str) -> int:
    leader = leader_of(cluster, topic, 0)
    return next(number for number in NODES if number != leader)


def assert_equal(cluster: ReplicatedCluster, topic: str, *, partition: int = 0, end: int) -> None:
    replicas = {str(one): cluster.data(one) / f"{topic}-{partition}" for one in NODES}
    assert differences(replicas, watermark=end) == []


def test_a_disk_whose_log_is_older_does_not_lead(cluster: ReplicatedCluster) -> None:
    """The leader's disk is set back to a copy that was made after an earlier clean stop, and says
    that all is well. What was acked since is on one other node alone, and that one comes last.
    """
    topic = "older"
    create_replicated(cluster, topic, partitions=1)
    write(cluster, topic, first=0, count=100)
    until_in_sync(cluster, topic)
    replaced = leader_of(cluster, topic, 0)
    cluster.nodes[replaced].end()
    copy = cluster.data(replaced).with_name("copy")
    shutil.copytree(cluster.data(replaced), copy)
    cluster.start(replaced)
    until_in_sync(cluster, topic)
    behind, whole = (number for number in NODES if number != replaced)
    cluster.nodes[behind].end()
    write(cluster, topic, first=100, count=100)
    cluster.nodes[whole].end()
    cluster.nodes[replaced].end(signal.SIGKILL)
    shutil.rmtree(cluster.data(replaced))
    copy.rename(cluster.data(replaced))

    cluster.start(replaced, behind)
    for number in (replaced, behind):
        assert partition_states(cluster.addresses[number], topic)[0].leader is None
    cluster.start(whole)
    until_in_sync(cluster, topic)
    assert values(cluster, topic) == list(range(200))
    assert_equal(cluster, topic, end=200)


def test_damage_that_a_leader_passes_on_is_refused_and_other_partitions_go_on(
    cluster: ReplicatedCluster,
) -> None:
    topic = "damaged"
    create_replicated(cluster, topic, partitions=2)
    follower = a_follower(cluster, topic)
    for partition in range(2):
        write(cluster, topic, partition=partition, first=0, count=40)
    until_in_sync(cluster, topic)
    cluster.nodes[follower].end()
    for partition in range(2):
        write(cluster, topic, partition=partition, first=40, count=60)
    leader = leader_of(cluster, topic, 0)
    [segment] = (cluster.data(leader) / f"{topic}-0").glob("*.log")
    *_, last = batches_in(segment)
    whole = segment.read_bytes()
    assert whole.endswith(last.content)
    with segment.open("r+b") as file:
        file.seek(len(whole) - 1)
        file.write(bytes([whole[-1] ^ 1]))

    cluster.start(follower)
    told = cluster.nodes[follower].until_logged(f"replica failed partition={topic}-0")
    until(
        "the other partition is in sync",
        lambda: follower in partition_states(cluster.addresses[leader], topic)[1].in_sync,
    )
    assert_equal(cluster, topic, partition=1, end=100)
    assert "corrupt batch from leader" in told
    assert follower not in partition_states(cluster.addresses[leader], topic)[0].in_sync
    with segment.open("r+b") as file:
        file.seek(len(whole) - 1)
        file.write(whole[-1:])
    until_in_sync(cluster, topic)
    assert_equal(cluster, topic, end=100)
    assert values(cluster, topic, partitions=2) == sorted([*range(100), *range(100)])


def test_a_replica_with_another_topic_id_is_set_aside_and_copied_anew(
    cluster: ReplicatedCluster,
) -> None:
    topic = "renamed"
    create_replicated(cluster, topic, partitions=1)
    write(cluster, topic, first=0, count=100)
    until_in_sync(cluster, topic)
    follower = a_follower(cluster, topic)
    cluster.nodes[follower].end()
    directory = cluster.data(follower) / f"{topic}-0"
    (directory / "partition.metadata").write_text(
        f"version: 0\ntopic_id: {ANOTHER_TOPIC_ID}\n", encoding="utf-8"
    )

    cluster.start(follower)
    cluster.nodes[follower].until_logged(f"partition={topic}-0 stray=true set_aside=")
    until_in_sync(cluster, topic)
    assert_equal(cluster, topic, end=100)
    [stray] = cluster.data(follower).glob(f"{topic}-0.*-stray")
    assert ANOTHER_TOPIC_ID in (stray / "partition.metadata").read_text(encoding="utf-8")
    assert values(cluster, topic) == list(range(100))


def test_leaders_that_are_damaged_and_killed_with_all_others_lose_nothing(
    cluster: ReplicatedCluster,
) -> None:
    """Each of three nodes has a flipped bit in the partition that it leads."""
    topic = "flipped"
    create_replicated(cluster, topic, partitions=3)
    for partition in NODES:
        write(cluster, topic, partition=partition - 1, first=0, count=100)
    until_in_sync(cluster, topic)
    led = {leader_of(cluster, topic, partition): partition for partition in range(3)}
    assert led.keys() == set(NODES)
    for number in NODES:
        saved = cluster.data(number) / "replication-offset-checkpoint"
        until(
            "high watermarks are saved",
            lambda saved=saved: all(
                f"{topic} {partition} 100" in saved.read_text(encoding="utf-8").splitlines()
                for partition in range(3)
            ),
        )
    for node in cluster.nodes.values():
        node.end(signal.SIGKILL)
    for number, partition in led.items():
        [segment] = (cluster.data(number) / f"{topic}-{partition}").glob("*.log")
        *_, last = batches_in(segment)
        with segment.open("r+b") as file:
            file.seek(segment.stat().st_size - len(last.content) - 1)
            [byte] = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte ^ 1]))

    cluster.start(*NODES)
    until_in_sync(cluster, topic)
    assert values(cluster, topic, partitions=3) == sorted([*range(100)] * 3)
    for number, partition in led.items():
        assert_equal(cluster, topic, partition=partition, end=100)
        assert list(cluster.data(number).glob(f"{topic}-{partition}.*-stray"))
