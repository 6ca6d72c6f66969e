"""An idempotent producer: records in, futures of their places out. `batch_sender` sends them.

Up to five requests are in flight to each broker. What can be tried again is, until the delivery
deadline, without reordering and without duplicates as long as it is idempotent, which it is
unless acks are not "all".
"""

import asyncio
from dataclasses import field
from enum import IntEnum
from types import TracebackType
from typing import Self

from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import RETRIABLE, Refused, error_code
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.batch_sender import BatchSender, QuietDelivery
from penstock.client.produce.partitioner import Partitioner, Sticky
from penstock.client.produce.pending_batch import Delivered
from penstock.client.produce.produce_request import Writer
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.records.build import record_bytes_max
from penstock.records.record import Headers, Record
from penstock.transactions.state import Identity
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FIRST_EPOCH = ProducerEpoch(0)
Delivery = asyncio.Future[Delivered]


class Acks(IntEnum):
    """How many replicas must have a record before its delivery is told."""

    ALL = -1
    NONE = 0
    LEADER = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRules:
    acks: Acks = Acks.ALL
    batches: BatchRules = field(default_factory=BatchRules)
    block_ms_max: int = 60_000  # how long `send` may wait for metadata and for room
    request_ms_max: int = 30_000

    def __post_init__(self) -> None:
        assert self.acks is Acks.ALL or not self.batches.idempotent, "idempotence needs acks=all"


class Producer:
    """Use as `async with Producer(cluster) as producer`: leaving it delivers what was sent."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        rules: ProducerRules | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        self.cluster = cluster
        self.rules = rules or ProducerRules()
        self._sender = BatchSender(
            cluster,
            batches=self.rules.batches,
            partitioner=partitioner or Sticky(),
            acks=self.rules.acks,
            block_ms_max=self.rules.block_ms_max,
            request_ms_max=self.rules.request_ms_max,
            identify=self._ask_producer_id,
        )

    async def __aenter__(self) -> Self:
        self._sender.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                await self.flush()
        finally:
            self._sender.close()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Takes a record in and returns its delivery, to be awaited or not.

        Waits, within `block_ms_max`, for what it needs to know of the topic and for room in the
        buffer.
        """
        assert not self._sender.closed, "the producer was closed"
        place = await self._sender.place(
            topic,
            key=key,
            value=value,
            partition=partition,
            size_bytes=record_bytes_max(key, value, headers),
        )
        now_ms = self.cluster.clock.now_ms() if timestamp_ms is None else timestamp_ms
        delivery: Delivery = asyncio.get_running_loop().create_future()
        if self._sender.append(place, Record(key, value, headers, now_ms), delivery):
            # Whoever sends in a loop finds room every time and never waits, so the sender gets its
            # turn here.
            await asyncio.sleep(0)
        return delivery

    async def send_batch(self, place: TopicPartition, batch: bytearray) -> Delivery:
        """Takes in a record batch that was built elsewhere, compressed or not; its delivery tells
        the offset of its first record. The bytes are the producer's from now on.
        """
        assert not self._sender.closed, "the producer was closed"
        await self._sender.place(
            place.topic, key=None, value=None, partition=place.partition, size_bytes=len(batch)
        )
        delivery = QuietDelivery()
        self._sender.append_ready(place, batch, delivery)
        return delivery

    async def flush(self) -> None:
        """Waits until everything sent so far is settled, one way or the other; sends half-full
        batches too.
        """
        await self._sender.flush()

    async def _ask_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        reply = await self.cluster.ask_any(request, InitProducerIdResponse)
        code = error_code(reply.error_code)
        if code == ErrorCode.NONE:
            identity = Identity(ProducerId(reply.producer_id), FIRST_EPOCH)
            self._sender.write_as(Writer(identity=identity))
            return
        refused = Refused(code, "producer id")
        if code not in RETRIABLE:
            self._sender.abandon(refused)
        raise refused
