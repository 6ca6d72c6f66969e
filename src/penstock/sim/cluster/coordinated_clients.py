"""Clients that need a coordinator: transactions over partitions of several nodes, and commits of a
group. The coordinator is wherever the partition of its topic is led.
"""

import asyncio

from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import ClientError
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.sim.cluster.clients import Client
from penstock.sim.cluster.history import Outcome, TransactionHistory
from penstock.sim.cluster.scenario import ORDERS, PAYMENTS
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.world.ports import World

TRANSACTION_RULES = TransactionRules(
    timeout_ms=15_000,
    answer_ms_max=8_000,
    block_ms_max=4_000,
    request_ms_max=4_000,
    batches=BatchRules(linger_ms=5, delivery_ms_max=8_000, backoff_ms=100),
)
ABORTS = 0.2
NAMES_VERSION = 9  # the last in which topics go by name


class TransactionClient(Client):
    """Each transaction has records in several partitions: all of them count, or none."""

    async def main(self, world: World) -> None:
        async with self.connected(world) as cluster:
            while not self.ending:
                try:
                    async with TransactionalProducer(
                        cluster, self.name, rules=TRANSACTION_RULES
                    ) as producer:
                        await self._transact(producer)
                except ClientError as error:
                    self.note(f"gives its producer up: {error}")
                    await asyncio.sleep(0.3)

    async def _transact(self, producer: TransactionalProducer) -> None:
        while not self.ending:
            view = await producer.cluster.need([PAYMENTS])
            count = len(view.topics[PAYMENTS].partitions)
            name = f"{self.name}/{self.fresh_value()}"
            places = self.chance.sample(range(count), self.chance.randint(1, count))
            transaction = TransactionHistory(
                name=name, values=frozenset(f"{name}/{place}".encode() for place in places)
            )
            self.history.transactions[name] = transaction
            await producer.begin()
            for place in places:
                value = f"{name}/{place}".encode()
                await producer.send(PAYMENTS, value, partition=place)
            if self.chance.random() < ABORTS:
                await producer.abort()
                self.note(f"aborted {name}")
            else:
                transaction.outcome = Outcome.ASKED
                await producer.commit()
                transaction.outcome = Outcome.COMMITTED
                self.history.commit_acks += 1
                self.note(f"committed {name}")
            await asyncio.sleep(self.chance.uniform(0.3, 1.5))


class CommitterClient(Client):
    """Commits ever higher offsets of one partition for a group of its own."""

    async def main(self, world: World) -> None:
        async with self.connected(world) as cluster:
            coordinators = Coordinators(cluster)
            while not self.ending:
                try:
                    await self._commit(coordinators)
                except ClientError as error:
                    self.note(f"cannot commit: {error}")
                    coordinators.forget(self.name)
                await asyncio.sleep(self.chance.uniform(0.3, 1.5))

    async def _commit(self, coordinators: Coordinators) -> None:
        """One attempt: another one within the client would hide that the first may come later."""
        node = await coordinators.of(self.name)
        offset = self.fresh_value()
        place = TopicPartition(ORDERS, 0)
        committed = self.history.commits.setdefault(self.name, {})
        committed[offset] = False
        told = OffsetCommitRequestPartition(
            partition_index=place.partition, committed_offset=offset
        )
        reply = await coordinators.cluster.ask(
            node,
            OffsetCommitRequest(
                group_id=self.name,
                topics=[OffsetCommitRequestTopic(name=place.topic, partitions=[told])],
            ),
            OffsetCommitResponse,
            version=NAMES_VERSION,
        )
        code = reply.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            committed[offset] = True
            self.history.commit_acks += 1
            self.note(f"committed offset {offset}")
        else:
            self.note(f"commit of {offset} refused with {ErrorCode(code).name}")
            coordinators.forget(self.name)
