"""A producer whose records count together or not at all.

    async with TransactionalProducer(cluster, "billing-1") as producer:
        while True:
            async with producer.transaction():
                await producer.send("invoices", b"...", key=b"...")
                await producer.send_offsets("billing", {partition: Committed(offset=next_offset)})

Entering takes the transactional id over: whoever had it is fenced, and what he left open is
aborted. Leaving aborts what is neither ended nor prepared. Of a transaction that was lost in part,
`commit` raises AbortOnly; after an abort the next one may begin. A commit that nobody answered is a
CommitInDoubt: ask for it again. Fenced is for good, and so is what a coordinator refuses outright.

Two-phase commit (KIP-939). `prepare` delivers everything, leaves the transaction open, and returns
a value with which any other process can end it (`transactions.end_prepared`). With `two_phase` such
a transaction has no time-out; with `keep_prepared` a producer that enters finds one in `kept`
instead of aborting it, and may only commit or abort it.

Where there is no event loop, as in a task of Spark, one `asyncio.run` around all the work will do:

    async def work() -> PreparedTransaction | None:
        async with Cluster(TcpNetwork(), RealClock(), parse_addresses(bootstrap)) as cluster:
            async with TransactionalProducer(cluster, transactional_id, rules=rules) as producer:
                await producer.begin()
                for place, batch in batches:
                    await producer.send_batch(place, batch)
                return await producer.prepare()

    prepared = asyncio.run(work())

The rules are `transaction`'s and `transaction_answers`', which know no tasks; here is the shell.
Calls that ask a coordinator take turns (`_turn`); records may be sent from many tasks at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import field, replace
from types import TracebackType
from typing import Self

from penstock.client.consume.group_offsets import NOBODY, Committed, Committer
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import ClientError
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.batch_sender import BatchSender, Delivery, QuietDelivery
from penstock.client.produce.partitioner import Partitioner, Sticky
from penstock.client.produce.prepared_transaction import PreparedTransaction
from penstock.client.produce.produce_request import Generation, Writer
from penstock.client.produce.transaction import (
    ProducerTransaction,
    Stage,
    Wish,
    begun,
    closing,
    ended,
    ending,
    enlisted,
    harmed,
    identified,
    prepared,
    refusal,
    touched,
    unanswered,
)
from penstock.client.produce.transaction_answers import NOT_YET, Answer, Verdict
from penstock.client.produce.transaction_requests import (
    Claim,
    add_offsets,
    add_partitions,
    claim_id,
    commit_offsets_in,
    end_transaction,
    generation_of,
)
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.records.build import record_bytes_max
from penstock.records.record import Headers, Record
from penstock.transactions.state import Identity

ACKS_ALL = -1
FAREWELL_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRules:
    timeout_ms: int = 60_000  # a transaction that takes longer is aborted, and its producer fenced
    two_phase: bool = False  # it is never aborted by itself
    keep_prepared: bool = False  # what was left open is not aborted on entering
    generation_max: Generation = Generation.TWO  # of the protocol; what the cluster has decides
    answer_ms_max: int = 60_000  # how long coordinators are asked again
    batches: BatchRules = field(default_factory=BatchRules)
    block_ms_max: int = 60_000  # how long `send` may wait for metadata and for room
    request_ms_max: int = 30_000


class TransactionalProducer:
    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        rules: TransactionRules | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        self.cluster = cluster
        self.rules = rules or TransactionRules()
        self.state = ProducerTransaction(transactional_id=transactional_id)
        self._coordinators = Coordinators(cluster, kind=CoordinatorKind.TRANSACTION)
        self._groups = Coordinators(cluster)
        self._sender = BatchSender(
            cluster,
            batches=replace(self.rules.batches, idempotent=True),
            partitioner=partitioner or Sticky(),
            acks=ACKS_ALL,
            block_ms_max=self.rules.block_ms_max,
            request_ms_max=self.rules.request_ms_max,
            given_up=self._lost,
        )
        self._turn = asyncio.Lock()
        self._added: dict[TopicPartition, None] = {}  # to the transaction, in generation 1

    @property
    def transactional_id(self) -> str:
        return self.state.transactional_id

    @property
    def identity(self) -> Identity:
        """The producer id and epoch that coordinators listen to."""
        assert self.state.identity is not None, "use it as `async with`"
        return self.state.identity

    @property
    def kept(self) -> Identity | None:
        """Who wrote the transaction that was found open and kept; it is to be committed or aborted.

        None when there was none, or not any more.
        """
        return self.state.kept

    async def __aenter__(self) -> Self:
        await self.cluster.any_channel()  # which tells what the cluster has agreed on
        await self._take_id(keep_prepared=self.rules.keep_prepared)
        self._sender.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self.state.stage in (Stage.OPEN, Stage.CLOSING, Stage.ABORT_ONLY, Stage.ABORTING):
                with contextlib.suppress(ClientError, TimeoutError):
                    async with asyncio.timeout(FAREWELL_MS / 1000):
                        await self.abort()
        finally:
            self._sender.close()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begins a transaction, and commits it at the end, or aborts it after an error."""
        await self.begin()
        try:
            yield
        except BaseException:
            with contextlib.suppress(ClientError):
                await self.abort()
            raise
        await self.commit()

    async def begin(self) -> None:
        async with self._turn:
            self._allow(Wish.BEGIN)
            if self.state.stage is Stage.NEW:
                await self._take_id(keep_prepared=False)
            self.state = begun(self.state, self._generation())
            self._added.clear()
            self._sender.write_as(
                Writer(
                    identity=self.identity,
                    transactional_id=self.transactional_id,
                    generation=self.state.generation,
                )
            )

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
        """Takes a record in and returns its delivery, which may be left alone: `commit` raises what
        kept it from being delivered.
        """
        self._allow(Wish.WRITE)
        size_bytes = record_bytes_max(key, value, headers)
        place = await self._place(topic, key, value, partition, size_bytes)
        now_ms = self.cluster.clock.now_ms() if timestamp_ms is None else timestamp_ms
        delivery = QuietDelivery()
        if self._sender.append(place, Record(key, value, headers, now_ms), delivery):
            # Whoever sends in a loop finds room every time and never waits, so the sender gets its
            # turn here.
            await asyncio.sleep(0)
        return delivery

    async def send_batch(self, place: TopicPartition, batch: bytearray) -> Delivery:
        """Takes in a record batch that was built elsewhere, compressed or not; its delivery tells
        the offset of its first record. The bytes are the producer's from now on: it writes its
        identity and sequence numbers into them.
        """
        self._allow(Wish.WRITE)
        await self._place(place.topic, None, None, place.partition, len(batch))
        delivery = QuietDelivery()
        self._sender.append_ready(place, batch, delivery)
        return delivery

    async def send_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, Committed],
        *,
        member: Committer = NOBODY,
    ) -> None:
        """Commits offsets of a group within the transaction. A `member` that is none of the group
        any more can't: AbortOnly.
        """
        async with self._turn:
            self._allow(Wish.WRITE)
            self.state = touched(self.state)
            wait_ms = self.rules.answer_ms_max
            if self.state.generation is Generation.ONE:
                answer = await add_offsets(
                    self._coordinators, self.transactional_id, self.identity, group, wait_ms=wait_ms
                )
                self._enlisted(answer)
            answer = await commit_offsets_in(
                self._groups,
                self.transactional_id,
                self.identity,
                self.state.generation,
                group,
                offsets,
                member,
                wait_ms=wait_ms,
            )
            self._enlisted(answer)

    async def flush(self) -> None:
        """Waits until everything sent so far is delivered; AbortOnly when something was not."""
        await self._sender.flush()
        self._allow(Wish.WRITE)

    async def prepare(self) -> PreparedTransaction | None:
        """Delivers everything and leaves the transaction open, to be ended by whoever has what is
        returned, here or elsewhere; None when nothing was written, and there is nothing to end.
        """
        async with self._turn:
            self._allow(Wish.PREPARE)
            await self._deliver(Wish.PREPARE)
            self.state = prepared(self.state)
            if self.state.stage is Stage.READY:
                return None
            producer_id, epoch = self.identity
            return PreparedTransaction(
                transactional_id=self.transactional_id, producer_id=producer_id, epoch=epoch
            )

    async def commit(self) -> None:
        """Delivers everything and commits. CommitInDoubt when nobody answered: ask again."""
        async with self._turn:
            self._allow(Wish.COMMIT)
            if self.state.stage in (Stage.OPEN, Stage.CLOSING):
                await self._deliver(Wish.COMMIT)
            await self._end(commit=True)

    async def abort(self) -> None:
        """Aborts what was begun, whatever has become of it. Ask again when nobody answered."""
        async with self._turn:
            self._allow(Wish.ABORT)
            if self.state.touched:
                self._sender.abandon(ClientError("the transaction was aborted"))
                if self.state.generation is Generation.ONE:
                    # The broker could take what is under way for a part of the next transaction. In
                    # generation 2 that has an epoch of its own.
                    await self._sender.answered()
            await self._end(commit=False)

    def _allow(self, wish: Wish) -> None:
        assert not self._sender.closed, "the producer was closed"
        error = refusal(self.state, wish)
        if error is not None:
            raise error

    async def _take_id(self, *, keep_prepared: bool) -> None:
        claim = Claim(
            timeout_ms=self.rules.timeout_ms,
            two_phase=self.rules.two_phase,
            keep_prepared=keep_prepared,
            held=self.state.identity,
        )
        answer = await claim_id(
            self._coordinators, self.transactional_id, claim, wait_ms=self.rules.answer_ms_max
        )
        self.state = identified(self.state, answer, self._generation())
        self._raise(answer)

    def _generation(self) -> Generation:
        return min(generation_of(self._coordinators), self.rules.generation_max)

    async def _place(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        size_bytes: int,
    ) -> TopicPartition:
        """Where a record goes: there is room, and the transaction is open, and knows the partition
        if it must. So it is when this returns, and until the caller waits for something.
        """
        while True:
            place = await self._sender.place(
                topic, key=key, value=value, partition=partition, size_bytes=size_bytes
            )
            self._allow(Wish.WRITE)
            self.state = touched(self.state)
            if self.state.generation is Generation.TWO or place in self._added:
                return place
            await self._add(place)
            partition = place.partition

    async def _add(self, place: TopicPartition) -> None:
        async with self._turn:
            self._allow(Wish.WRITE)
            answer = await add_partitions(
                self._coordinators,
                self.transactional_id,
                self.identity,
                (place,),
                wait_ms=self.rules.answer_ms_max,
            )
            self._enlisted(answer)
            self._added[place] = None

    async def _deliver(self, wish: Wish) -> None:
        self.state = closing(self.state)
        await self._sender.flush()
        self._allow(wish)

    async def _end(self, *, commit: bool) -> None:
        self.state = ending(self.state, commit=commit)
        if self.state.stage is Stage.READY:
            return
        answer = await end_transaction(
            self._coordinators,
            self.transactional_id,
            self.identity,
            self.state.generation,
            commit=commit,
            wait_ms=self.rules.answer_ms_max,
        )
        self.state = ended(self.state, answer)
        if self.state.stage in (Stage.NEW, Stage.READY):
            return
        self._raise(answer)

    def _enlisted(self, answer: Answer) -> None:
        self.state = enlisted(self.state, answer)
        self._give_up_if_lost()
        self._raise(answer)
        self._allow(Wish.WRITE)

    def _raise(self, answer: Answer) -> None:
        """What an answer that is not DONE means for the caller."""
        if answer.verdict is Verdict.DONE:
            return
        if answer.verdict in NOT_YET and self.state.stage is not Stage.ABORT_ONLY:
            raise unanswered(self.state, answer)
        error = refusal(self.state, Wish.COMMIT)
        assert error is not None
        raise error

    def _lost(self, error: ClientError) -> None:
        """A batch was given up, and with it the transaction."""
        self.state = harmed(self.state, error)
        self._give_up_if_lost()

    def _give_up_if_lost(self) -> None:
        if self.state.stage in (Stage.ABORT_ONLY, Stage.OVER):
            assert self.state.error is not None
            self._sender.abandon(self.state.error)
