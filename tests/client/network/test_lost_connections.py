"""A client whose connections are cut again and again: every record is there once, in order."""

import asyncio

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Delivery, Producer, ProducerRules
from penstock.model.identity import TopicPartition
from penstock.testing import Broker
from penstock.world.clock import RealClock
from penstock.world.ports import Address
from penstock.world.tcp import TcpNetwork
from penstock.world.tcp_stream import TcpStream

RECORDS = 3_000
CUTS = 15
RULES = ClusterRules(backoff_ms=2)


class CuttingNetwork(TcpNetwork):
    """A network that loses every connection when told to, with whatever is under way on it."""

    def __init__(self) -> None:
        super().__init__()
        self.cuts = 0
        self._open: list[TcpStream] = []

    async def connect(self, address: Address) -> TcpStream:
        stream = await super().connect(address)
        self._open.append(stream)
        return stream

    def cut(self) -> None:
        self.cuts += len(self._open)
        for stream in self._open:
            stream.close()
        self._open.clear()


async def produce_through_cuts(cluster: Cluster, network: CuttingNetwork, topic: str) -> list[int]:
    rules = ProducerRules(batches=BatchRules(linger_ms=0, batch_bytes_max=500, backoff_ms=2))
    deliveries: list[Delivery] = []
    async with Producer(cluster, rules=rules) as producer:
        for number in range(RECORDS):
            deliveries.append(await producer.send(topic, b"%d" % number))
            if number % (RECORDS // CUTS) == 0:
                await deliveries[max(0, number - 20)]
                network.cut()
        await producer.flush()
    return [(await delivery).offset or 0 for delivery in deliveries]


async def consume_through_cuts(cluster: Cluster, network: CuttingNetwork, topic: str) -> list[int]:
    fetch = FetchRules(wait_ms_max=20, partition_bytes_max=4_000)
    rules = ConsumerRules(reset=Reset.EARLIEST, fetch=fetch, prefetched_bytes_max=20_000)
    numbers: list[int] = []
    async with Consumer(cluster, rules=rules) as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        while len(numbers) < RECORDS:
            records = await consumer.poll(wait_ms=5_000, records_max=RECORDS // CUTS)
            numbers += [int(record.value or b"") for record in records]
            network.cut()
    return numbers


def test_records_survive_connections_that_are_cut(penstock: Broker) -> None:
    topic = penstock.topic()
    network = CuttingNetwork()

    async def work() -> tuple[list[int], list[int]]:
        addresses = parse_addresses(penstock.bootstrap)
        async with Cluster(network, RealClock(), addresses, rules=RULES) as cluster:
            async with asyncio.timeout(120):
                offsets = await produce_through_cuts(cluster, network, topic)
                return offsets, await consume_through_cuts(cluster, network, topic)

    offsets, numbers = asyncio.run(work())
    assert network.cuts > CUTS
    assert offsets == list(range(RECORDS))
    assert numbers == list(range(RECORDS))
