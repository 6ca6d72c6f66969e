"""With acks=0 a record is delivered when its connection has taken it, and not before."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.errors import BufferFull
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Acks, Producer, ProducerRules
from penstock.model.identity import TopicPartition
from penstock.testing import Broker
from penstock.world.clock import RealClock
from penstock.world.ports import Address, Buffer, Stream
from penstock.world.tcp import TcpNetwork

RULES = ClusterRules(backoff_ms=5)
BATCHES = BatchRules(idempotent=False, linger_ms=0, batch_bytes_max=900, buffer_bytes_max=2_000)
WITHOUT_ACKS = ProducerRules(acks=Acks.NONE, block_ms_max=60_000, batches=BATCHES)
RECORDS = 100
VALUE = b"x" * 800


class GatedStream:
    """A connection on which nothing is sent until the gate is open."""

    def __init__(self, stream: Stream, gate: asyncio.Event) -> None:
        self.peer = stream.peer
        self.receive_into = stream.receive_into
        self.close = stream.close
        self._stream = stream
        self._gate = gate

    async def send(self, buffers: Sequence[Buffer], *, more: bool = False) -> None:
        await self._gate.wait()
        await self._stream.send(buffers, more=more)


class GatedNetwork:
    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self._network = TcpNetwork()
        self._open: list[Stream] = []

    async def connect(self, address: Address) -> GatedStream:
        stream = await self._network.connect(address)
        self._open.append(stream)
        return GatedStream(stream, self.gate)

    def cut(self) -> None:
        for stream in self._open:
            stream.close()
        self._open.clear()


def run(broker: Broker, work: Callable[[Cluster, GatedNetwork], Awaitable[None]]) -> None:
    async def connected() -> None:
        network = GatedNetwork()
        addresses = parse_addresses(broker.bootstrap)
        async with Cluster(network, RealClock(), addresses, rules=RULES) as cluster:
            async with asyncio.timeout(60):
                await work(cluster, network)

    asyncio.run(connected())


async def connect_lane(producer: Producer, topic: str) -> None:
    """One record passes, so that all that is needed for the next one is known."""
    await (await producer.send(topic, b"first"))


async def turns() -> None:
    """All that could happen by now has happened."""
    for _ in range(50):
        await asyncio.sleep(0)


async def values_of(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    addresses = parse_addresses(broker.bootstrap)
    async with (
        asyncio.timeout(20),
        Cluster(TcpNetwork(), RealClock(), addresses, rules=RULES) as cluster,
        Consumer(cluster, rules=ConsumerRules(reset=Reset.EARLIEST)) as consumer,
    ):
        await consumer.assign([TopicPartition(topic, 0)])
        while len(values) < count:
            values += [record.value for record in await consumer.poll(wait_ms=5_000)]
    return values


def test_a_record_is_delivered_when_it_was_sent(penstock: Broker) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster, network: GatedNetwork) -> None:
        async with Producer(cluster, rules=WITHOUT_ACKS) as producer:
            await connect_lane(producer, topic)
            network.gate.clear()
            delivery = await producer.send(topic, b"second")
            flushing = asyncio.ensure_future(producer.flush())
            await turns()
            assert not delivery.done()
            assert not flushing.done()
            network.gate.set()
            await flushing
            assert (await delivery).offset is None
        assert await values_of(penstock, topic, 2) == [b"first", b"second"]

    run(penstock, work)


def test_records_that_are_not_sent_fill_the_buffer(penstock: Broker) -> None:
    topic = penstock.topic()
    rules = ProducerRules(acks=Acks.NONE, block_ms_max=200, batches=BATCHES)

    async def work(cluster: Cluster, network: GatedNetwork) -> None:
        async with Producer(cluster, rules=rules) as producer:
            await connect_lane(producer, topic)
            network.gate.clear()
            await producer.send(topic, VALUE)
            await producer.send(topic, VALUE)
            with pytest.raises(BufferFull):
                await producer.send(topic, VALUE)
            network.gate.set()

    run(penstock, work)


def test_a_closed_client_has_sent_all_that_it_was_given(penstock: Broker) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster, network: GatedNetwork) -> None:
        async with Producer(cluster, rules=WITHOUT_ACKS) as producer:
            await connect_lane(producer, topic)
            network.gate.clear()
            asyncio.get_running_loop().call_later(0.05, network.gate.set)
            for _ in range(RECORDS):
                await producer.send(topic, VALUE)

    run(penstock, work)
    assert asyncio.run(values_of(penstock, topic, RECORDS + 1)) == [b"first", *[VALUE] * RECORDS]


def test_what_a_lost_connection_has_not_taken_is_sent_again(penstock: Broker) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster, network: GatedNetwork) -> None:
        async with Producer(cluster, rules=WITHOUT_ACKS) as producer:
            await connect_lane(producer, topic)
            network.gate.clear()
            delivery = await producer.send(topic, b"second")
            await turns()
            network.cut()
            await turns()
            network.gate.set()
            await delivery
        assert await values_of(penstock, topic, 2) == [b"first", b"second"]

    run(penstock, work)
