"""Transactions whose coordinator, partitions and groups are on different nodes of a cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.client.admin.admin import Admin, first_refusal
from penstock.client.consume.group_offsets import Committed
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError
from penstock.client.produce.produce_request import Generation
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.groups.partitioning import OFFSETS_TOPIC, partition_of
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, ProducerEpoch, ProducerId
from penstock.model.identity import TopicPartition as Place
from penstock.model.offset import Offset
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.world.ports import Address
from penstock.world.real import real_world
from rig.node_cluster import NodeCluster, node_cluster
from rig.transactional.confluent import ConfluentTransactions, committed_consumer
from rig.transactional.interface import (
    PATIENCE_SECONDS,
    Transactional,
    TransactionalClient,
    await_that,
    take,
)
from rig.transactional.java import JavaTransactions
from rig.transactional.kafka_python import KafkaPythonTransactions

NODES = (1, 2, 3)
TRANSACTION_TOPIC = "__transaction_state"

Scenario = Callable[[NodeCluster], Awaitable[None]]


@pytest.fixture(params=["confluent-kafka", "kafka-python", "java"])
def client(request: pytest.FixtureRequest) -> TransactionalClient:
    match request.param:
        case "confluent-kafka":
            return ConfluentTransactions()
        case "kafka-python":
            return KafkaPythonTransactions()
        case _:
            return JavaTransactions(request.getfixturevalue("kafka_agent"))


def in_a_cluster(path: Path, scenario: Scenario) -> None:
    """Every node leads one partition of `orders`, and of `copies`."""

    async def whole() -> None:
        async with node_cluster(
            path,
            group_initial_rebalance_delay_ms="0",
            transaction_two_phase_commit_enable="true",
        ) as cluster:
            for name in ("orders", "copies"):
                await cluster.create_topic(name, through=1)
            # The first to name a transactional id or a group makes the internal topics.
            await asyncio.to_thread(begin_and_end, cluster.bootstrap)
            for name in ("orders", "copies", TRANSACTION_TOPIC, OFFSETS_TOPIC):
                await cluster.until(lambda image, name=name: name in image.topics_by_name)
            await scenario(cluster)

    asyncio.run(whole())


def begin_and_end(bootstrap: str) -> None:
    producer = ConfluentTransactions().producer(bootstrap, "first")
    producer.begin()
    producer.send_offset("first", "orders", 0)
    producer.abort()
    producer.close()


def image(cluster: NodeCluster) -> Image:
    return cluster.inside(next(iter(cluster.running))).local.image


def key_led_by(cluster: NodeCluster, node: int, topic: str, prefix: str) -> str:
    """A transactional id or a group that the node coordinates."""
    partitions = image(cluster).topics_by_name[topic].partitions
    keys = (f"{prefix}-{number}" for number in range(1000))
    return next(
        key
        for key in keys
        if partitions[partition_of(key, partition_count=len(partitions))].leader == NodeId(node)
    )


def partition_led_by(cluster: NodeCluster, node: int, topic: str) -> int:
    leaders = [one.leader for one in image(cluster).topics_by_name[topic].partitions]
    return leaders.index(NodeId(node))


def write_everywhere(producer: Transactional, topic: str, value: bytes) -> None:
    for partition in range(len(NODES)):
        producer.send(topic, value, partition=partition)


def committed(
    bootstrap: str, topic: str, count: int, *, partitions: int = len(NODES)
) -> dict[int, list[bytes]]:
    """What readers of committed records see in each partition, once there are so many."""
    consumer: Consumer = committed_consumer(bootstrap, group="nobody")
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    seen: dict[int, list[bytes]] = {index: [] for index in range(partitions)}

    def enough() -> bool:
        for message in consumer.consume(100, 0.1):
            assert message.error() is None, message.error()
            seen[message.partition()].append(message.value())
        return sum(map(len, seen.values())) >= count

    await_that(enough, f"{count} committed records of {topic}")
    consumer.close()
    return seen


def test_a_transaction_spans_all_nodes_wherever_its_coordinator_is(
    tmp_path: Path, client: TransactionalClient
) -> None:
    """Transaction after transaction: the next one begins once all nodes have their markers."""

    def transact(bootstrap: str, transactional_id: str) -> None:
        producer = client.producer(bootstrap, transactional_id)
        for turn in range(3):
            for commits in (False, True):
                producer.begin()
                value = f"{transactional_id} {turn} {'kept' if commits else 'dropped'}"
                write_everywhere(producer, "orders", value.encode())
                producer.commit() if commits else producer.abort()
        producer.close()

    async def scenario(cluster: NodeCluster) -> None:
        ids = [key_led_by(cluster, node, TRANSACTION_TOPIC, "spans") for node in NODES]
        assert len(set(ids)) == len(NODES)
        for transactional_id in ids:
            await asyncio.to_thread(transact, cluster.bootstrap, transactional_id)
        kept = [f"{one} {turn} kept".encode() for one in ids for turn in range(3)]
        seen = await asyncio.to_thread(committed, cluster.bootstrap, "orders", 3 * len(kept))
        assert seen == dict.fromkeys(range(len(NODES)), kept)

    in_a_cluster(tmp_path, scenario)


@pytest.mark.parametrize("generation", list(Generation), ids=lambda one: one.name.lower())
def test_both_generations_of_clients_write_records_and_offsets_on_every_node(
    tmp_path: Path, generation: Generation
) -> None:
    """In generation 2 the broker that gets a batch adds its partition, wherever it must ask."""

    async def transact(clients: Cluster, transactional_id: str, group: str, offset: int) -> None:
        rules = TransactionRules(generation_max=generation)
        async with TransactionalProducer(clients, transactional_id, rules=rules) as producer:
            for commits in (False, True):
                await producer.begin()
                value = f"{transactional_id} {group} {commits}".encode()
                for partition in range(len(NODES)):
                    await producer.send("orders", value, partition=partition)
                place = Place("orders", 0)
                committed = Committed(offset=Offset(offset if commits else 999))
                await producer.send_offsets(group, {place: committed})
                await (producer.commit() if commits else producer.abort())
            assert producer.state.generation is generation

    async def scenario(cluster: NodeCluster) -> None:
        pairs = [
            (
                key_led_by(cluster, node, TRANSACTION_TOPIC, f"writer-for-{other}"),
                key_led_by(cluster, other, OFFSETS_TOPIC, f"readers-of-{node}"),
            )
            for node in NODES
            for other in NODES
        ]
        world = real_world(inline=True)
        async with Cluster(world.network, world.clock, [cluster.address(1)]) as clients:
            for offset, (transactional_id, group) in enumerate(pairs):
                await transact(clients, transactional_id, group, offset)
        kept = [f"{one} {group} True".encode() for one, group in pairs]
        seen = await asyncio.to_thread(committed, cluster.bootstrap, "orders", 3 * len(kept))
        assert seen == dict.fromkeys(range(len(NODES)), kept)
        for offset, (_, group) in enumerate(pairs):
            found = await asyncio.to_thread(committed_offsets, cluster.bootstrap, group)
            assert found[0] == offset

    in_a_cluster(tmp_path, scenario)


@pytest.mark.parametrize("generation", list(Generation), ids=lambda one: one.name.lower())
def test_transactions_follow_each_other_as_fast_as_they_can(
    tmp_path: Path, generation: Generation
) -> None:
    """The next one may begin before the markers of the last are written on all nodes."""
    writers, transactions, partitions = 4, 25, 6

    async def transact(address: Address, transactional_id: str) -> None:
        world = real_world(inline=True)
        rules = TransactionRules(generation_max=generation)
        async with (
            Cluster(world.network, world.clock, [address]) as clients,
            TransactionalProducer(clients, transactional_id, rules=rules) as producer,
        ):
            for number in range(transactions):
                await producer.begin()
                for partition in range(partitions):
                    value = f"{transactional_id} {number}".encode()
                    await producer.send("many", value, partition=partition)
                await producer.commit()

    async def scenario(cluster: NodeCluster) -> None:
        await cluster.create_topic("many", through=1, partitions=partitions)
        ids = [f"fast-{number}" for number in range(writers)]
        await asyncio.gather(*(transact(cluster.address(1), one) for one in ids))
        count = partitions * writers * transactions
        seen = await asyncio.to_thread(
            committed, cluster.bootstrap, "many", count, partitions=partitions
        )
        for values in seen.values():
            for one in ids:
                mine = [value for value in values if value.startswith(f"{one} ".encode())]
                assert mine == [f"{one} {number}".encode() for number in range(transactions)]

    in_a_cluster(tmp_path, scenario)


def test_offsets_of_a_group_on_another_node_are_part_of_the_transaction(
    tmp_path: Path, client: TransactionalClient
) -> None:
    """Consume, transform, produce; what is aborted is read again."""

    def copy(bootstrap: str, transactional_id: str, group: str) -> None:
        source = ConfluentTransactions().producer(bootstrap, "source")
        source.begin()
        write_everywhere(source, "orders", b"order")
        source.commit()
        source.close()
        producer = client.producer(bootstrap, transactional_id)
        for outcome in ("abort", "commit"):
            member = client.member(bootstrap, "orders", group=group, protocol="classic")
            values = take(member, 3)
            assert values == [b"order"] * 3
            producer.begin()
            for partition in range(len(NODES)):
                producer.send("copies", f"{outcome} of {len(values)}".encode(), partition=partition)
            producer.send_offsets_of(member)
            getattr(producer, outcome)()
            member.close()
        producer.close()

    async def scenario(cluster: NodeCluster) -> None:
        transactional_id = key_led_by(cluster, 1, TRANSACTION_TOPIC, "copier")
        group = key_led_by(cluster, 2, OFFSETS_TOPIC, "copiers")
        await asyncio.to_thread(copy, cluster.bootstrap, transactional_id, group)
        seen = await asyncio.to_thread(committed, cluster.bootstrap, "copies", 3)
        assert seen == {index: [b"commit of 3"] for index in range(len(NODES))}
        # One order and the marker of its transaction.
        offsets = await asyncio.to_thread(committed_offsets, cluster.bootstrap, group)
        assert set(offsets) <= {1, 2}
        assert len(offsets) == len(NODES)

    in_a_cluster(tmp_path, scenario)


def committed_offsets(bootstrap: str, group: str) -> list[int]:
    consumer: Consumer = committed_consumer(bootstrap, group=group)
    places = [TopicPartition("orders", index) for index in range(len(NODES))]
    offsets = [place.offset for place in consumer.committed(places, PATIENCE_SECONDS)]
    consumer.close()
    return offsets


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_a_node_that_is_killed_in_mid_transaction_gets_its_markers_when_it_is_back(
    tmp_path: Path, client: TransactionalClient, commits: bool
) -> None:
    """The end is decided while the node is away; other nodes have their markers at once."""

    async def scenario(cluster: NodeCluster) -> None:
        coordinator, lost = 1, 2
        transactional_id = key_led_by(cluster, coordinator, TRANSACTION_TOPIC, "bereft")
        partition = partition_led_by(cluster, lost, "orders")
        bootstrap = cluster.bootstrap
        producer = await asyncio.to_thread(client.producer, bootstrap, transactional_id)
        await asyncio.to_thread(producer.begin)
        await asyncio.to_thread(write_everywhere, producer, "orders", b"first")
        await cluster.kill(lost)
        end = producer.commit if commits else producer.abort
        await asyncio.to_thread(end)
        await cluster.until(lambda image: leader(image, "orders", partition) is None)
        await cluster.start(lost)
        await cluster.until(lambda image: leader(image, "orders", partition) == lost)
        await asyncio.to_thread(producer.begin)
        await asyncio.to_thread(write_everywhere, producer, "orders", b"second")
        await asyncio.to_thread(producer.commit)
        values = [b"first", b"second"] if commits else [b"second"]
        seen = await asyncio.to_thread(committed, bootstrap, "orders", len(NODES) * len(values))
        assert seen == dict.fromkeys(range(len(NODES)), values)
        await asyncio.to_thread(producer.close)

    in_a_cluster(tmp_path, scenario)


@pytest.mark.parametrize("client", ["confluent-kafka", "java"], indirect=True)
def test_a_coordinator_that_is_killed_ends_its_transactions_when_it_is_back(
    tmp_path: Path, client: TransactionalClient
) -> None:
    """Not of kafka-python, which forgets its EndTxn when the connection is refused."""

    async def scenario(cluster: NodeCluster) -> None:
        coordinator = 3
        transactional_id = key_led_by(cluster, coordinator, TRANSACTION_TOPIC, "headless")
        bootstrap = cluster.bootstrap
        producer = await asyncio.to_thread(client.producer, bootstrap, transactional_id)
        await asyncio.to_thread(producer.begin)
        await asyncio.to_thread(write_everywhere, producer, "orders", b"order")
        await cluster.kill(coordinator)
        committing = asyncio.create_task(asyncio.to_thread(producer.commit))
        await cluster.start(coordinator)
        await committing
        seen = await asyncio.to_thread(committed, bootstrap, "orders", len(NODES))
        assert seen == {index: [b"order"] for index in range(len(NODES))}
        await asyncio.to_thread(producer.close)

    in_a_cluster(tmp_path, scenario)


def test_a_topic_that_is_deleted_in_mid_transaction_does_not_hold_it_up(tmp_path: Path) -> None:
    """Its partitions on other nodes need no marker: the coordinator's own image tells so."""

    async def scenario(cluster: NodeCluster) -> None:
        transactional_id = key_led_by(cluster, 1, TRANSACTION_TOPIC, "forgetful")
        bootstrap = cluster.bootstrap
        producer = await asyncio.to_thread(
            ConfluentTransactions().producer, bootstrap, transactional_id
        )
        await asyncio.to_thread(producer.begin)
        await asyncio.to_thread(write_everywhere, producer, "copies", b"lost")
        await asyncio.to_thread(write_everywhere, producer, "orders", b"order")
        await delete_topic(cluster, "copies")
        await asyncio.to_thread(producer.commit)
        await asyncio.to_thread(producer.begin)  # only once the one before is complete
        await asyncio.to_thread(write_everywhere, producer, "orders", b"next")
        await asyncio.to_thread(producer.commit)
        seen = await asyncio.to_thread(committed, bootstrap, "orders", 2 * len(NODES))
        assert seen == {index: [b"order", b"next"] for index in range(len(NODES))}
        await asyncio.to_thread(producer.close)

    in_a_cluster(tmp_path, scenario)


def test_a_writer_is_stopped_on_every_node_when_its_transaction_is_taken_over(
    tmp_path: Path,
) -> None:
    """KIP-939: whoever finds the transaction prepared must be the only one to change it."""

    async def scenario(cluster: NodeCluster) -> None:
        transactional_id = key_led_by(cluster, 1, TRANSACTION_TOPIC, "prepared")
        two_phase = TransactionRules(two_phase=True)
        keeping = TransactionRules(two_phase=True, keep_prepared=True)
        world = real_world(inline=True)
        async with (
            Cluster(world.network, world.clock, [cluster.address(1)]) as clients,
            TransactionalProducer(clients, transactional_id, rules=two_phase) as first,
        ):
            await first.begin()
            for partition in range(len(NODES)):
                await first.send("orders", b"prepared", partition=partition)
            await first.flush()
            async with TransactionalProducer(clients, transactional_id, rules=keeping) as second:
                assert second.kept is not None
                deliveries = [
                    await first.send("orders", b"too late", partition=partition)
                    for partition in range(len(NODES))
                ]
                for delivery in deliveries:
                    with pytest.raises(ClientError):
                        await delivery
                await second.commit()
            seen = await asyncio.to_thread(committed, cluster.bootstrap, "orders", len(NODES))
            assert list(seen.values()) == [[b"prepared"]] * len(NODES)

    in_a_cluster(tmp_path, scenario)


def test_a_transaction_is_not_taken_over_while_a_node_may_still_write_in_it(tmp_path: Path) -> None:
    async def scenario(cluster: NodeCluster) -> None:
        coordinator, lost = 1, 2
        transactional_id = key_led_by(cluster, coordinator, TRANSACTION_TOPIC, "prepared")
        partition = partition_led_by(cluster, lost, "orders")
        two_phase = TransactionRules(two_phase=True)
        world = real_world(inline=True)
        async with Cluster(world.network, world.clock, [cluster.address(coordinator)]) as clients:
            async with TransactionalProducer(clients, transactional_id, rules=two_phase) as writer:
                await writer.begin()
                for index in range(len(NODES)):
                    await writer.send("orders", b"prepared", partition=index)
                assert await writer.prepare() is not None
            request = InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=60_000,
                enable2_pc=True,
                keep_prepared_txn=True,
            )

            async def take_over() -> InitProducerIdResponse:
                return await clients.ask(NodeId(coordinator), request, InitProducerIdResponse)

            await cluster.kill(lost)
            refused = await take_over()
            assert refused.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            await cluster.until(lambda image: leader(image, "orders", partition) is None)
            refused = await take_over()
            assert refused.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            await cluster.start(lost)
            await cluster.until(lambda image: leader(image, "orders", partition) == lost)
            taken = await take_over()
            while taken.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
                taken = await take_over()
            assert taken.error_code == ErrorCode.NONE
            assert taken.ongoing_txn_producer_id >= 0

    in_a_cluster(tmp_path, scenario)


@pytest.mark.parametrize("killed", ["before it is taken over", "after it was taken over"])
def test_the_new_leader_of_a_partition_refuses_the_writer_of_a_transaction_that_was_taken_over(
    tmp_path: Path, killed: str
) -> None:
    async def scenario(cluster: NodeCluster) -> None:
        coordinator, lost = 1, 2
        await cluster.create_topic("replicated", through=1, replicas=3)
        await cluster.until(lambda image: "replicated" in image.topics_by_name)
        transactional_id = key_led_by(cluster, coordinator, TRANSACTION_TOPIC, "prepared")
        partition = partition_led_by(cluster, lost, "replicated")
        keeping = TransactionRules(two_phase=True, keep_prepared=True)
        world = real_world(inline=True)

        async def kill_the_leader() -> None:
            await cluster.kill(lost)
            await cluster.until(
                lambda image: leader(image, "replicated", partition) not in (lost, None)
            )

        async with (
            Cluster(world.network, world.clock, [cluster.address(coordinator)]) as clients,
            TransactionalProducer(
                clients, transactional_id, rules=TransactionRules(two_phase=True)
            ) as first,
        ):
            await first.begin()
            for index in range(len(NODES)):
                await first.send("replicated", b"prepared", partition=index)
            await first.flush()
            if killed == "before it is taken over":
                await kill_the_leader()
            async with TransactionalProducer(clients, transactional_id, rules=keeping) as second:
                assert second.kept is not None
                if killed == "after it was taken over":
                    await kill_the_leader()
                too_late = await first.send("replicated", b"too late", partition=partition)
                with pytest.raises(ClientError):
                    await too_late
                await second.commit()
            seen = await asyncio.to_thread(committed, cluster.bootstrap, "replicated", len(NODES))
            assert list(seen.values()) == [[b"prepared"]] * len(NODES)

    in_a_cluster(tmp_path, scenario)


def test_batches_that_come_while_earlier_ones_are_verified_keep_their_order(
    tmp_path: Path,
) -> None:
    """The first open the transaction in the partition while the last are still on their way."""
    batches = 300

    async def scenario(cluster: NodeCluster) -> None:
        coordinator, writes_on = 1, 2
        transactional_id = key_led_by(cluster, coordinator, TRANSACTION_TOPIC, "pipelined")
        partition = partition_led_by(cluster, writes_on, "orders")
        world = real_world(inline=True)
        async with Cluster(world.network, world.clock, [cluster.address(coordinator)]) as clients:
            await clients.refresh(["orders"])
            await clients.channel(NodeId(writes_on))
            identity = await clients.ask(
                NodeId(coordinator),
                InitProducerIdRequest(
                    transactional_id=transactional_id, transaction_timeout_ms=60_000
                ),
                InitProducerIdResponse,
            )
            assert identity.error_code == ErrorCode.NONE
            replies = []
            for number in range(batches):
                batch = build_batch(
                    [Record(key=None, value=b"%d" % number)],
                    producer_id=ProducerId(identity.producer_id),
                    producer_epoch=ProducerEpoch(identity.producer_epoch),
                    base_sequence=number,
                    transactional=True,
                )
                data = PartitionProduceData(index=partition, records=batch)
                topic = image(cluster).topics_by_name["orders"]
                request = ProduceRequest(
                    transactional_id=transactional_id,
                    acks=-1,
                    timeout_ms=30_000,
                    topic_data=[TopicProduceData(topic_id=topic.topic_id, partition_data=[data])],
                )
                asked = clients.ask(NodeId(writes_on), request, ProduceResponse)
                replies.append(asyncio.create_task(asked))
                await asyncio.sleep(0)
            answers = [
                reply.responses[0].partition_responses[0]
                for reply in await asyncio.gather(*replies)
            ]
            assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * batches
            assert [answer.base_offset for answer in answers] == list(range(batches))

    in_a_cluster(tmp_path, scenario)


async def delete_topic(cluster: NodeCluster, name: str) -> None:
    world = real_world(inline=True)
    async with Cluster(world.network, world.clock, [cluster.address(1)]) as clients:
        first_refusal((await Admin(clients).delete_topics([name])).values())


def leader(image: Image, topic: str, partition: int) -> NodeId | None:
    return image.topics_by_name[topic].partitions[partition].leader
