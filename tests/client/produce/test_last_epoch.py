"""A producer id has so many epochs: after the last one a producer goes on with another id."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.batch_sender import BatchSender, Delivery
from penstock.client.produce.partition_queue import EPOCH_MAX
from penstock.client.produce.partitioner import Sticky
from penstock.client.produce.produce_request import Writer
from penstock.client.produce.producer import Acks
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.records.record import Record
from penstock.testing import Broker
from penstock.transactions.state import Identity
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

Run = Callable[[Callable[[Cluster], Any]], Any]


async def new_id(cluster: Cluster) -> ProducerId:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
    reply = await cluster.ask_any(request, InitProducerIdResponse)
    return ProducerId(reply.producer_id)


def test_after_the_last_epoch_a_producer_goes_on_with_another_id(
    penstock: Broker, with_cluster: Run
) -> None:
    place = TopicPartition(penstock.topic(max_message_bytes=500), 0)
    first_epochs = iter((EPOCH_MAX, 0))
    identities: list[Identity] = []

    async def work(cluster: Cluster) -> None:
        async def identify() -> None:
            epoch = ProducerEpoch(next(first_epochs))
            identities.append(Identity(await new_id(cluster), epoch))
            sender.write_as(Writer(identity=identities[-1]))

        async def send(value: bytes) -> Delivery:
            delivery: Delivery = asyncio.get_running_loop().create_future()
            sender.append(place, Record(None, value, (), 1_000), delivery)
            return delivery

        sender = BatchSender(
            cluster,
            batches=BatchRules(linger_ms=0),
            partitioner=Sticky(),
            acks=Acks.ALL,
            block_ms_max=10_000,
            request_ms_max=10_000,
            identify=identify,
        )
        await cluster.need((place.topic,))
        sender.start()
        assert (await (await send(b"before"))).offset == 0
        with pytest.raises(Refused) as refused:
            await (await send(b"x" * 600))
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
        async with asyncio.timeout(30):
            assert (await (await send(b"after"))).offset == 1
            await sender.flush()
        sender.close()

    with_cluster(work)
    assert len({identity.producer_id for identity in identities}) == 2
