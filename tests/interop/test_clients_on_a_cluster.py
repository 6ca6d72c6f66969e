"""Each client on three nodes: records, groups, transactions, whichever node looks after them.

Partitions have one replica, so that a record comes through the one node that has it, or not at all.
"""

import itertools
from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from rig.apache_kafka.agent import KafkaAgent
from rig.clients.aio_kafka import AioKafkaClient
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import KafkaClient, Message, Receipt
from rig.clients.java import JavaClient
from rig.clients.kafka_python import KafkaPythonClient
from rig.cluster_questions import until
from rig.dialogue import Dialogue
from rig.served_cluster import ServedCluster
from rig.transactional.interface import TransactionalClient, take
from rig.transactional.looking import read

NODES = {1, 2, 3}
PARTITIONS = 6
COPIES = 10  # of records, in each partition
GROUP, TRANSACTION = 0, 1  # kinds of keys that a coordinator is asked for
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    data = tmp_path_factory.mktemp("cluster")
    with ServedCluster(data, group_initial_rebalance_delay_ms="0") as cluster:
        cluster.start()
        yield cluster


@pytest.fixture(params=["confluent-kafka", "kafka-python", "aiokafka", "java"])
def client(
    request: pytest.FixtureRequest, cluster: ServedCluster, kafka_agent: KafkaAgent
) -> Iterator[KafkaClient]:
    one: KafkaClient
    match request.param:
        case "confluent-kafka":
            one = ConfluentClient(cluster.bootstrap)
        case "kafka-python":
            one = KafkaPythonClient(cluster.bootstrap)
        case "aiokafka":
            one = AioKafkaClient(cluster.bootstrap)
        case _:
            one = JavaClient(agent=kafka_agent, bootstrap=cluster.bootstrap)
    yield one
    one.close()


def spread_topic(cluster: ServedCluster) -> str:
    """A topic with partitions on every node."""
    name = f"spread-{next(NUMBERS)}"

    def is_spread(address: str) -> bool:
        with closing(Dialogue(address, "")) as dialogue:
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
            [topic] = dialogue.exchange(asked, version=12).topics
        return {one.leader_id for one in topic.partitions} == NODES

    wanted = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
    with closing(Dialogue(cluster.addresses[1], "")) as dialogue:
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=60_000)
        [created] = dialogue.exchange(request, version=7).topics
    assert created.error_code == 0
    until(f"{name} is known to all nodes", lambda: all(map(is_spread, cluster.addresses.values())))
    return name


def coordinated_by(cluster: ServedCluster, node: int, *, kind: int) -> str:
    """A new name whose coordinator is on that node."""
    found: list[str] = []

    def is_found() -> bool:
        names = [f"name-{next(NUMBERS)}" for _ in range(20)]
        with closing(Dialogue(cluster.addresses[1], "")) as dialogue:
            asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=names)
            reply = dialogue.exchange(asked, version=4)
        found.extend(one.key for one in reply.coordinators if one.node_id == node)
        return bool(found)

    topic = TRANSACTION_TOPIC if kind == TRANSACTION else OFFSETS_TOPIC
    until(f"a partition of {topic} is led by {node}", is_found)
    return found[0]


def test_records_are_written_to_and_read_from_all_nodes(
    client: KafkaClient, cluster: ServedCluster
) -> None:
    topic = spread_topic(cluster)
    sent = [
        Message(value=b"%d-%d" % (partition, copy), partition=partition)
        for copy in range(COPIES)
        for partition in range(PARTITIONS)
    ]
    receipts = client.produce(topic, sent)
    assert all(isinstance(receipt, Receipt) for receipt in receipts)
    for partition in range(PARTITIONS):
        found = client.read(topic, partition, from_offset=0, count=COPIES)
        assert [one.value for one in found] == [b"%d-%d" % (partition, n) for n in range(COPIES)]


@pytest.mark.parametrize("node", sorted(NODES))
def test_a_group_and_a_transaction_are_coordinated_by_each_node(
    transactions: TransactionalClient, cluster: ServedCluster, node: int
) -> None:
    """What a member of a group reads is written to all nodes with its offsets, or not at all."""
    source, sink = spread_topic(cluster), spread_topic(cluster)
    group = coordinated_by(cluster, node, kind=GROUP)
    transactional_id = coordinated_by(cluster, node, kind=TRANSACTION)
    values = [b"%d" % number for number in range(PARTITIONS)]
    with closing(ConfluentClient(cluster.bootstrap)) as writer:
        writer.produce(source, [Message(value=one, partition=int(one)) for one in values])
    bootstrap = cluster.bootstrap
    with closing(transactions.producer(bootstrap, transactional_id)) as producer:
        producer.begin()
        for partition in range(PARTITIONS):
            producer.send(sink, b"aborted", partition=partition)
        producer.abort()
        member = transactions.member(bootstrap, source, group=group, protocol="classic")
        with closing(member):
            taken = take(member, PARTITIONS)
            assert sorted(taken) == values
            producer.begin()
            for value in taken:
                producer.send(sink, value, partition=int(value))
            producer.send_offsets_of(member)
            producer.commit()
    assert read(bootstrap, sink, partitions=PARTITIONS) == values
    # Who comes next goes on where the transaction said.
    with closing(ConfluentClient(bootstrap)) as writer:
        writer.produce(source, [Message(value=b"next", partition=0)])
    with closing(transactions.member(bootstrap, source, group=group, protocol="classic")) as member:
        assert take(member, 1) == [b"next"]
