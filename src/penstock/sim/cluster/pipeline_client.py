"""An idempotent producer with several requests under way at a time, each of which is sent again by
itself until it is acked: they come in any order, and must be in the log in that of their sequences.
"""

import asyncio
from dataclasses import dataclass

from penstock.client.network.cluster import Cluster, Lane
from penstock.client.network.errors import RETRIABLE, ClientError, Refused, error_code
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.sim.cluster.clients import CLIENT_RULES, Client, WatchedCluster
from penstock.sim.cluster.layout import address
from penstock.sim.cluster.scenario import ORDERS
from penstock.sim.transacting.routes import ManyNodes
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.world.ports import World
from penstock.world.tasks import TaskGroup

UNDER_WAY = 4
REQUEST_MS_MAX = 3_000
BATCH_MS_MAX = 15_000  # then it is given up, and with it the producer's id
BACKOFF_S = 0.05
PRODUCE_VERSION = 11  # the last but one in which topics go by name
INIT_VERSION = 4
LANES = (Lane.PRODUCE, Lane.QUESTIONS)
# That of a batch whose predecessor has not come yet.
AGAIN = RETRIABLE | {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}


@dataclass(slots=True, kw_only=True)
class Identity:
    producer_id: ProducerId
    epoch: ProducerEpoch
    sequence: int = 0


class PipelineClient(Client):
    async def main(self, world: World) -> None:
        bootstrap = [address(host) for host in self.hosts]
        async with WatchedCluster(
            world.network, world.clock, bootstrap, rules=CLIENT_RULES
        ) as cluster:
            place = TopicPartition(ORDERS, self.chance.randrange(self.scenario.orders_partitions))
            while not self.ending:
                try:
                    await self._write(cluster, place, await self._identity(cluster))
                except ClientError as error:
                    self.note(f"begins again: {error}")
                    await asyncio.sleep(0.5)

    async def _identity(self, cluster: Cluster) -> Identity:
        channel = await cluster.any_channel()
        reply = await channel.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0),
            InitProducerIdResponse,
            timeout_ms=CLIENT_RULES.request_ms_max,
            version=INIT_VERSION,
        )
        code = error_code(reply.error_code)
        if code is not ErrorCode.NONE:
            raise Refused(code, "a producer id")
        return Identity(
            producer_id=ProducerId(reply.producer_id), epoch=ProducerEpoch(reply.producer_epoch)
        )

    async def _write(self, cluster: Cluster, place: TopicPartition, identity: Identity) -> None:
        """All of one burst have come to their end when the next one begins."""
        while not self.ending:
            async with TaskGroup() as group:
                for number in range(UNDER_WAY):
                    lane = LANES[number % len(LANES)]
                    group.start(self._send(cluster, place, identity, lane), name=self.name)
            await asyncio.sleep(self.chance.uniform(0.3, 1.5))

    async def _send(
        self, cluster: Cluster, place: TopicPartition, identity: Identity, lane: Lane
    ) -> None:
        value = b"%d of %s" % (self.fresh_value(), self.name.encode())
        batch = build_batch(
            [Record(None, value, (), cluster.clock.now_ms())],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=identity.sequence,
        )
        identity.sequence += 1
        data = PartitionProduceData(index=place.partition, records=bytes(batch))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=REQUEST_MS_MAX,
            topic_data=[TopicProduceData(name=place.topic, partition_data=[data])],
        )
        sent_us = self.view.now_us()
        offset = await self._until_acked(cluster, place, request, lane)
        self.history.acked(place, offset, value)
        self.view.acked(place, offset, sent_us=sent_us)

    async def _until_acked(
        self, cluster: Cluster, place: TopicPartition, request: ProduceRequest, lane: Lane
    ) -> int:
        routes = ManyNodes(cluster)
        deadline_ms = cluster.clock.monotonic_ms() + BATCH_MS_MAX
        while True:
            try:
                channel = await cluster.channel(await routes.to_leader(place), lane)
                reply = await channel.ask(
                    request, ProduceResponse, timeout_ms=REQUEST_MS_MAX, version=PRODUCE_VERSION
                )
                told = reply.responses[0].partition_responses[0]
                code = error_code(told.error_code)
                if code is ErrorCode.NONE:
                    return told.base_offset
                error: ClientError = Refused(code, str(place))
                if code not in AGAIN:
                    raise error
            except Refused:
                raise
            except ClientError as lost:
                error = lost
            if cluster.clock.monotonic_ms() >= deadline_ms:
                raise error
            routes.forget()
            await asyncio.sleep(BACKOFF_S)
