"""Carries out, with the client, what the flows of a sink ask for.

Every action passes through `Carrier.carry_out`, one at a time; the commits of a decision are sent
together with the first of them, and so are looks at its transactions. The client asks again where
an answer is lost; of a Write only a look can tell, and the flow takes it.
"""

import asyncio
import random
from collections.abc import Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self, TypeVar, assert_never

from penstock.client.admin.coordinator_map import CoordinatorMap
from penstock.client.admin.markers import Written, ending_of
from penstock.client.admin.prepared_endings import end_all
from penstock.client.admin.transaction_listing import (
    OPEN_STATES,
    TransactionDescription,
    Wanted,
    abort_transaction,
    describe_together,
    describe_transactions,
    list_transactions,
)
from penstock.client.admin.transactions import abort_open, end_prepared, reclaim
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import AbortOnly, ClientError, Fenced, Refused
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.prepared_transaction import Ending, PreparedTransaction
from penstock.client.produce.transaction_answers import Verdict
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import Offset
from penstock.records.compression import Codec
from penstock.spark.sink.actions import (
    Abort,
    AbortOf,
    Action,
    Commit,
    Fence,
    FindEnding,
    Holder,
    ListOpen,
    Look,
    ReadLast,
    Reclaim,
    Reclaimed,
    Seen,
    Write,
    WriteOutcome,
)
from penstock.spark.sink.decision import Prepared, SinkRecord, encode
from penstock.spark.sink.decision_topic import DecisionTopic, Known
from penstock.spark.sink.names import decider_id
from penstock.spark.sink.record_change import Flow
from penstock.spark.sink.remembered import coordinators_in
from penstock.transactions.state import BY_WORD, TransactionState

DECIDER_MS = 10_000  # how long a decider that has died can keep others from reading
FENCED_MS = 100  # at most so long before the second try, and twice as long before each one more
FENCED_MS_MAX = 6_400
MARKER_MS_MAX = 5_000  # how long a marker may take from the coordinator to a partition
MARKER_POLL_MS = 50
T = TypeVar("T")
S = TransactionState
SEEN = {
    S.EMPTY: Seen.IDLE,
    S.ONGOING: Seen.OPEN,
    S.PREPARE_COMMIT: Seen.COMMITTED,
    S.COMPLETE_COMMIT: Seen.COMMITTED,
    S.PREPARE_ABORT: Seen.ABORTED,
    S.COMPLETE_ABORT: Seen.ABORTED,
    S.PREPARE_EPOCH_FENCE: Seen.ABORTED,
    S.DEAD: Seen.NONE,
}
NOT_OPEN = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})
assert set(SEEN) == set(TransactionState)


class Carrier:
    """Of one sink. Use as `async with`."""

    def __init__(
        self,
        cluster: Cluster,
        sink: str,
        decisions: DecisionTopic,
        *,
        two_phase: bool,
        known: Known | None = None,
    ) -> None:
        self.cluster = cluster
        self.sink = sink
        self.decisions = decisions
        self.two_phase = two_phase
        self.known = known
        self._coordinators = Coordinators(cluster, kind=CoordinatorKind.TRANSACTION)
        self._answered: dict[Prepared, bool] = {}  # Commits that were carried out beside others
        self._seen: dict[str, Seen] = {}  # Looks, in the same way
        self._found: dict[str, NodeId] = {}  # coordinators
        self._decider: TransactionalProducer | None = None
        self._held = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._held.aclose()

    async def run(self, flow: Flow[T]) -> T:
        """What the flow returns or raises."""
        answer: object = None
        pause_ms = FENCED_MS
        while True:
            try:
                action = flow.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = await self.carry_out(action)
            if answer is WriteOutcome.FENCED:
                # Those that fence each other would go on at the same pace.
                await asyncio.sleep(random.uniform(0, pause_ms) / 1000)
                pause_ms = min(2 * pause_ms, FENCED_MS_MAX)

    async def carry_out(self, action: Action) -> object:
        if not isinstance(action, Look):
            self._seen.clear()  # after anything else it is to be looked at again
        match action:
            case Fence():
                await self._fence()
                return None
            case ReadLast():
                self.known = await self.decisions.last(self.sink, self.known)
                return self.known.record
            case Write(record):
                return await self._write(record)
            case Commit(transaction, others):
                if others:
                    await self._commit_together((transaction, *others))
                return await self._commit(transaction)
            case Look(transactional_id, beside):
                if beside:
                    await self._look_together((transactional_id, *beside))
                return await self._look(transactional_id)
            case FindEnding(transaction):
                return await self._find_ending(transaction)
            case Reclaim(transactional_id):
                return await self._reclaim(transactional_id)
            case ListOpen(prefix):
                return await self._list_open(prefix)
            case Abort(transactional_id):
                await self._abort(transactional_id)
                return None
            case Holder(transactional_id):
                return await self._holder(transactional_id)
            case AbortOf(held_by):
                await self._abort_of(held_by)
                return None
            case _:
                assert_never(action)

    async def _fence(self) -> None:
        await self._held.aclose()
        # A decision of many tasks then fits into a topic whose messages are as large as is usual.
        rules = TransactionRules(timeout_ms=DECIDER_MS, batches=BatchRules(codec=Codec.GZIP))
        producer = TransactionalProducer(self.cluster, decider_id(self.sink), rules=rules)
        self._decider = await self._held.enter_async_context(producer)

    async def _write(self, record: SinkRecord | None) -> WriteOutcome:
        assert self._decider is not None, "a flow fences before it writes"
        decider, self._decider = self._decider, None
        place = await self.decisions.place_of(self.sink)
        try:
            async with decider.transaction():
                await decider.send(
                    place.topic,
                    None if record is None else encode(record),
                    key=self.sink.encode(),
                    partition=place.partition,
                )
        except Fenced as fenced:
            return WriteOutcome.UNKNOWN if fenced.in_doubt else WriteOutcome.FENCED
        except AbortOnly:
            return WriteOutcome.FENCED  # by what the partition answered: no commit was asked for
        except ClientError:
            return WriteOutcome.UNKNOWN
        if not self.two_phase:
            # Apache Kafka 4.3 loses the marker of a commit that it has acked, if it is killed then
            # and finds the partition without a leader when it starts. Rows are committed only by a
            # decision that was read, so that such a one can be aborted by hand.
            self.known = await self.decisions.last(self.sink, self.known)
            if self.known.record != record:
                return WriteOutcome.UNKNOWN
        return WriteOutcome.WRITTEN

    async def _commit_together(self, transactions: Iterable[Prepared]) -> None:
        """Notes the answers that are clear; `_commit` asks once more about the others."""
        by_id = {_prepared(one): one for one in transactions}
        answers = await end_all(self._coordinator_map(), by_id, commit=True)
        for one, answer in answers.items():
            if answer.verdict is Verdict.DONE:
                self._answered[by_id[one]] = True
            elif answer.verdict is Verdict.FENCED or answer.code in NOT_OPEN:
                self._answered[by_id[one]] = False

    async def _commit(self, transaction: Prepared) -> bool:
        if transaction in self._answered:
            return self._answered.pop(transaction)
        try:
            await end_prepared(self.cluster, _prepared(transaction), commit=True)
        except Fenced:
            return False
        except Refused as refused:
            if refused.code in NOT_OPEN:
                return False
            raise
        return True

    def _coordinator_map(self) -> CoordinatorMap:
        # Without two-phase commit no id comes again: nobody asks for its coordinator after this.
        known = coordinators_in(self.cluster) if self.two_phase else self._found
        return CoordinatorMap(self.cluster, known)

    async def _look_together(self, transactional_ids: Iterable[str]) -> None:
        described = await describe_together(self._coordinator_map(), transactional_ids)
        self._seen = {name: SEEN[BY_WORD[found.state]] for name, found in described.items()}

    async def _look(self, transactional_id: str) -> Seen:
        if transactional_id in self._seen:
            return self._seen.pop(transactional_id)
        found = await self._described(transactional_id)
        return Seen.NONE if found is None else SEEN[BY_WORD[found.state]]

    async def _described(self, transactional_id: str) -> TransactionDescription | None:
        described = await describe_transactions(self._coordinators, [transactional_id])
        found = described[transactional_id]
        if isinstance(found, TransactionDescription):
            return found
        if found.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        raise found

    async def _find_ending(self, transaction: Prepared) -> Ending:
        witness = transaction.witness
        if witness is None:
            return Ending.UNKNOWN
        written = Written(
            partition=TopicPartition(witness.topic, witness.partition),
            offset=Offset(witness.offset),
            producer_id=transaction.producer_id,
            epoch=transaction.epoch,
        )
        clock = self.cluster.clock
        deadline_ms = clock.monotonic_ms() + MARKER_MS_MAX
        while True:
            found = await ending_of(self.cluster, written)
            if found is not Ending.OPEN or clock.monotonic_ms() >= deadline_ms:
                return found
            await asyncio.sleep(MARKER_POLL_MS / 1000)

    async def _reclaim(self, transactional_id: str) -> Reclaimed | None:
        found = await reclaim(self.cluster, transactional_id)
        if found.ongoing is None:
            return None
        return Reclaimed(
            written_by=_held(transactional_id, found.ongoing),
            held_by=_held(transactional_id, found.identity),
        )

    async def _list_open(self, prefix: str) -> tuple[str, ...]:
        # Not by a pattern: Apache Kafka lists by one only since 4.1, and escapes are RE2's.
        listed = await list_transactions(self.cluster, Wanted(states=OPEN_STATES))
        return tuple(
            one.transactional_id for one in listed if one.transactional_id.startswith(prefix)
        )

    async def _abort(self, transactional_id: str) -> None:
        if self.two_phase:
            await abort_open(self.cluster, transactional_id)
            return
        try:
            await abort_transaction(self._coordinators, transactional_id)
        except Refused as refused:
            if refused.code != ErrorCode.INVALID_TXN_STATE:
                raise

    async def _holder(self, transactional_id: str) -> Prepared | None:
        found = await self._described(transactional_id)
        if found is None or not found.is_ongoing:
            return None
        return _held(transactional_id, (found.producer_id, found.epoch))

    async def _abort_of(self, held_by: Prepared) -> None:
        try:
            await end_prepared(self.cluster, _prepared(held_by), commit=False)
        except Fenced:
            return
        except Refused as refused:
            if refused.code not in NOT_OPEN:
                raise


def _prepared(transaction: Prepared) -> PreparedTransaction:
    return PreparedTransaction(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        epoch=transaction.epoch,
    )


def _held(transactional_id: str, identity: Iterable[int]) -> Prepared:
    producer_id, epoch = identity
    return Prepared(transactional_id=transactional_id, producer_id=producer_id, epoch=epoch)
