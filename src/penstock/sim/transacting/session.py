"""One instance of an application as a transactional producer, request by request.

It speaks the protocol itself, so that both generations of clients are seen here, whatever our own
client does. A request is asked again while its answer may change, on the same identity and with
the same sequence; each attempt goes by a new connection if the one before was given up, so that
two of them may be under way. What was refused for good raises Refused.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from penstock.client.network.cluster import Cluster, Lane
from penstock.client.network.errors import (
    RETRIABLE,
    ClientError,
    Refused,
    TimedOut,
    UnsupportedByBroker,
    error_code,
)
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, ProducerEpoch, ProducerId, TopicPartition
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.sim.errors import Violation
from penstock.sim.history import Sent
from penstock.sim.transacting.history import Attempt
from penstock.sim.transacting.lab import TransactionLab
from penstock.sim.transacting.plan import Application, Style
from penstock.sim.transacting.routes import Routes
from penstock.transactions.state import Identity
from penstock.wire.definition import Message
from penstock.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

AnyReply = TypeVar("AnyReply", bound=Message)

PATIENCE_MS = 20_000
BACKOFF_MS = 30
WAIT = RETRIABLE | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT}
# After these the coordinator may have decided all the same: it could not tell in time.
UNCLEAR = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
NEVER = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER})


class Session:
    """Use within one transaction at a time; `identity` is what was given last."""

    def __init__(
        self,
        lab: TransactionLab,
        name: str,
        cluster: Cluster,
        application: Application,
        *,
        ends: Callable[[], Mapping[TopicPartition, int]],
        routes: Routes,
    ) -> None:
        self.lab = lab
        self.name = name
        self.application = application
        self.cluster = cluster
        self.identity: Identity | None = None
        self._ends = ends
        self._routes = routes
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._offsets_added = False

    @property
    def is_of_generation_2(self) -> bool:
        return self.application.style is not Style.GENERATION_1

    async def init(self, *, trade_in: bool) -> Identity | None:
        """Takes the transactional id over; the identity of a transaction that is kept for it."""
        held = self.identity if trade_in else None
        two_phase = self.application.style is Style.TWO_PHASE
        request = InitProducerIdRequest(
            transactional_id=self.application.transactional_id,
            transaction_timeout_ms=self.application.timeout_ms,
            producer_id=-1 if held is None else held.producer_id,
            producer_epoch=-1 if held is None else held.epoch,
            enable2_pc=two_phase,
            keep_prepared_txn=two_phase,
        )
        reply = await self._ask_until_answered(
            "init",
            request,
            InitProducerIdResponse,
            6 if two_phase else 4,
            _code,
            to=self._coordinator,
        )
        identity = _identity(reply.producer_id, reply.producer_epoch)
        history = self.lab.history.transactions
        history.given(self.application.transactional_id, identity)
        kept = None
        if reply.ongoing_txn_producer_id >= 0:
            kept = _identity(reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch)
        history.fence(identity, self._ends())
        self._become(identity)
        self._note(f"is {_text(identity)}, kept {_text(kept)}")
        return kept

    async def produce(self, attempt: Attempt, place: TopicPartition, sent: Sequence[Sent]) -> None:
        """One batch into a partition; it returns when that is acked."""
        identity = attempt.identity
        await self._add(identity, place)
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(sent)
        now_ms = self.cluster.clock.now_ms()
        batch = build_batch(
            [Record(one.key, one.value, one.headers, now_ms) for one in sent],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        request = ProduceRequest(
            transactional_id=self.application.transactional_id,
            acks=-1,
            timeout_ms=5_000,
            topic_data=[
                TopicProduceData(
                    name=place.topic,
                    partition_data=[
                        PartitionProduceData(index=place.partition, records=bytes(batch))
                    ],
                )
            ],
        )
        reply = await self._ask_until_answered(
            f"produce to {place}",
            request,
            ProduceResponse,
            12 if self.is_of_generation_2 else 11,
            lambda reply: reply.responses[0].partition_responses[0].error_code,
            to=partial(self._routes.to_leader, place),
            lane=Lane.PRODUCE,
        )
        offset = reply.responses[0].partition_responses[0].base_offset
        if not self.lab.history.transactions.nothing_promised:
            # Else an identity that was forgotten may be given out again, and its batches be known.
            for number, one in enumerate(sent):
                self.lab.history.ack(one, place, offset + number)
        self._note(f"{attempt.name} has {len(sent)} at {place}@{offset}")

    async def commit_offsets(self, attempt: Attempt, offsets: Mapping[TopicPartition, int]) -> None:
        identity, group = attempt.identity, self.application.transactional_id
        if not self.is_of_generation_2 and not self._offsets_added:
            added = AddOffsetsToTxnRequest(
                transactional_id=self.application.transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                group_id=group,
            )
            await self._ask_until_answered(
                "add offsets", added, AddOffsetsToTxnResponse, 3, _code, to=self._coordinator
            )
            self._offsets_added = True
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for place, offset in offsets.items():
            topic = topics.setdefault(place.topic, TxnOffsetCommitRequestTopic(name=place.topic))
            topic.partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=place.partition, committed_offset=offset
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.application.transactional_id,
            group_id=group,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            topics=list(topics.values()),
        )
        await self._ask_until_answered(
            "commit offsets",
            request,
            TxnOffsetCommitResponse,
            5 if self.is_of_generation_2 else 4,
            lambda reply: max(
                told.error_code for topic in reply.topics for told in topic.partitions
            ),
            to=partial(self._routes.to_group, group),
        )

    async def end(self, attempt: Attempt | None, *, commit: bool) -> None:
        """Ends the attempt, or what nobody knows of; with the identity that is held now."""
        assert self.identity is not None
        identity = self.identity
        history = self.lab.history.transactions
        name = "what is left over" if attempt is None else attempt.name
        request = EndTxnRequest(
            transactional_id=self.application.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
        )
        late = False

        def asking() -> None:
            nonlocal late
            late = history.is_fenced(self.application.transactional_id, identity)
            if commit and attempt is not None:
                history.ask_commit(attempt)

        def answered(code: ErrorCode) -> None:
            if commit and attempt is not None and code not in UNCLEAR | {ErrorCode.NONE}:
                history.refused_commit(attempt)

        reply = await self._ask_until_answered(
            "commit" if commit else "abort",
            request,
            EndTxnResponse,
            5 if self.is_of_generation_2 else 4,
            _code,
            to=self._coordinator,
            asking=asking,
            answered=answered,
        )
        self._note(f"{'committed' if commit else 'aborted'} {name}")
        if late and not history.nothing_promised:
            raise Violation(
                "fencing", f"{self.name} ends {name} as {_text(identity)}, which had been fenced"
            )
        if attempt is not None:
            history.ended(attempt, committed=commit, seen_by=self.name)
        if self.is_of_generation_2:
            self._become(_identity(reply.producer_id, reply.producer_epoch))
        self._added.clear()
        self._offsets_added = False

    # Parts

    async def _add(self, identity: Identity, place: TopicPartition) -> None:
        if self.is_of_generation_2 or place in self._added:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.application.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=place.topic, partitions=[place.partition])
            ],
        )
        await self._ask_until_answered(
            f"add {place}",
            request,
            AddPartitionsToTxnResponse,
            3,
            lambda reply: (
                reply.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
            to=self._coordinator,
        )
        self._added.add(place)

    async def _ask_until_answered(
        self,
        what: str,
        request: Message,
        reply_type: type[AnyReply],
        version: int,
        code_of: Callable[[AnyReply], int],
        *,
        to: Callable[[], Awaitable[NodeId]],
        lane: Lane = Lane.QUESTIONS,
        asking: Callable[[], None] = lambda: None,
        answered: Callable[[ErrorCode], None] = lambda code: None,
    ) -> AnyReply:
        """The answer that is not to wait; Refused by any other, TimedOut when patience ends."""
        clock = self.cluster.clock
        deadline_ms = clock.monotonic_ms() + PATIENCE_MS
        while True:
            try:
                channel = await self.cluster.channel(await to(), lane)
                asking()
                reply = await channel.ask(
                    request,
                    reply_type,
                    timeout_ms=self.application.request_ms_max,
                    version=version,
                )
            except UnsupportedByBroker:
                raise
            except ClientError as error:
                self._note(f"{what}: {error}")
                self._routes.forget()
            else:
                code = error_code(code_of(reply))
                answered(code)
                if code is ErrorCode.NONE:
                    return reply
                self._note(f"{what}: {code.name}")
                self._refuse_what_never_happens(what, code)
                if code not in WAIT:
                    raise Refused(code, what)
                self._routes.forget()
            if clock.monotonic_ms() >= deadline_ms:
                raise TimedOut(f"{what}: no end of it")
            await asyncio.sleep(BACKOFF_MS / 1000)

    async def _coordinator(self) -> NodeId:
        return await self._routes.to_transactions(self.application.transactional_id)

    def _refuse_what_never_happens(self, what: str, code: ErrorCode) -> None:
        if code in NEVER and not self.lab.history.transactions.nothing_promised:
            raise Violation("answers", f"{self.name} is told {code.name}: {what}")

    def _become(self, identity: Identity) -> None:
        if identity != self.identity:
            self._sequences.clear()
        self.identity = identity
        self._added.clear()
        self._offsets_added = False

    def _note(self, what: str) -> None:
        self.lab.trace.note(self.name, what)


def _code(reply: Message) -> int:
    code: int = reply.error_code  # type: ignore[attr-defined]  # those that are asked here have one
    return code


def _identity(producer_id: int, epoch: int) -> Identity:
    return Identity(ProducerId(producer_id), ProducerEpoch(epoch))


def _text(identity: Identity | None) -> str:
    return "nothing" if identity is None else f"{identity.producer_id}:{identity.epoch}"
