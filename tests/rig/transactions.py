"""A transaction coordinator without a node: a real host on a journal in memory, and its clients.

The journal holds bytes in Kafka's form, so every failover also proves what the records keep.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from penstock.machine.decision import Decision
from penstock.machine.held_replies import NotDone
from penstock.machine.host import AppendFailed, Host
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.model.limit import TRANSACTIONAL_IDS_PER_STEP
from penstock.model.offset import Offset
from penstock.model.settings.transactions import TransactionSettings
from penstock.transactions.decide import (
    TransactionReply,
    TransactionRequest,
    decide,
    decide_due,
    decide_loaded,
)
from penstock.transactions.decision_context import NEEDS_PRODUCER_ID, DecisionContext
from penstock.transactions.enlist import Enlist, Enlisted
from penstock.transactions.fencing import Aborted, Fenced, TookOver, explained
from penstock.transactions.markers import (
    MarkersNoted,
    MarkersWritten,
    SendMarkers,
    StopWriter,
    to_resume,
)
from penstock.transactions.records import TransactionStored, decode, encode
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import Identity, Transaction
from penstock.transactions.timers import TransactionEnds
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NEVER_MS = 2**62
HOUR_MS = 3_600_000


class NoReply(Exception):
    """The host gave none, or the coordinator had no producer id to decide with."""

    def __init__(self, why: NotDone | None) -> None:
        super().__init__(why)
        self.why = why


class MemoryJournal:
    """Keys and values as a partition would hold them, and what they are read as."""

    def __init__(self) -> None:
        self.written: list[tuple[bytes, bytes | None]] = []
        self.is_broken = False
        self._read: list[TransactionStored] = []

    @property
    def end_offset(self) -> Offset:
        return Offset(len(self.written))

    def append(self, records: Sequence[TransactionStored]) -> None:
        if self.is_broken:
            raise AppendFailed("out of order")
        for key, value in map(encode, records):
            read = decode(key, value)
            assert read is not None
            self.written.append((key, value))
            self._read.append(read)

    def truncate(self, end_offset: Offset) -> None:
        del self.written[end_offset:]
        del self._read[end_offset:]

    def records(self) -> Sequence[TransactionStored]:
        return self._read

    def compacted(self) -> Sequence[TransactionStored]:
        """The last record of each id, in the order in which these were written."""
        last: dict[str, TransactionStored] = {}
        for record in self.records():
            last.pop(record.transactional_id, None)
            last[record.transactional_id] = record
        return list(last.values())


class Coordinator:
    """One shard, from one failover to the next. Commits at once unless `is_held`."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings(transaction_two_phase_commit_enable=True)
        self.journal = MemoryJournal()
        self.now_ms = 1_000_000
        self.is_held = False  # the watermark stands still
        self.producer_ids_left = NEVER_MS
        self.sent: list[SendMarkers] = []  # by this coordinator, and not yet written
        self.explained: list[TookOver | Aborted | Fenced] = []  # what would be logged
        self._next_producer_id = 1000
        self._epoch = 0
        self._load()

    def _load(self, *, is_compacted: bool = False) -> None:
        self._epoch += 1
        self.shard = TransactionShard(coordinator_epoch=self._epoch)
        self.sent = []
        self.host: Host[TransactionStored, object] = Host(
            journal=self.journal,
            machine=self.shard,
            watermark=Offset(0),
            carry_out=self._carry_out,
        )
        records = self.journal.compacted() if is_compacted else self.journal.records()
        self.host.replay(records, next_offset=self.journal.end_offset)
        self.host.opened()
        self.host.advance(self.journal.end_offset)
        for some in to_resume(self.shard, ids_per_step=TRANSACTIONAL_IDS_PER_STEP):
            self.submit(partial(decide_loaded, self.shard, self.context(), some))

    def context(self) -> DecisionContext:
        return DecisionContext(
            settings=self.settings,
            now_ms=self.now_ms,
            monotonic_ms=self.now_ms - 777,
            fresh_producer_id=self._fresh_producer_id,
        )

    def submit(
        self,
        decision: Callable[[], Decision[TransactionStored, object]],
        answer: Callable[[object], None] = lambda _: None,
    ) -> None:
        self.host.submit(decision, deadline_ms=NEVER_MS, answer=answer)
        if not self.is_held:
            self.commit_journal()
        self.check()

    def send(
        self, request: TransactionRequest, answer: Callable[[object], None], *, version: int = 0
    ) -> None:
        """Asks, and is answered once the watermark allows it."""
        replies: list[object] = []

        def decided() -> Decision[TransactionStored, object]:
            decision = decide(self.shard, self.context(), request, version=version)
            replies.append(decision.reply)
            return decision

        is_watched = isinstance(request, InitProducerIdRequest | EndTxnRequest | Enlist)
        before = self._known(request) if is_watched else None
        self.submit(decided, answer)
        if isinstance(request, InitProducerIdRequest | EndTxnRequest | Enlist) and replies:
            self.explained += explained(before, self._known(request), request, replies[0])

    def _known(self, about: object) -> Transaction | None:
        return self.shard.transactions.get(getattr(about, "transactional_id", ""))

    def ask(self, request: TransactionRequest, *, version: int = 0) -> TransactionReply:
        assert not self.is_held
        replies: list[object] = []
        self.send(request, replies.append, version=version)
        [reply] = replies
        if isinstance(reply, NotDone):
            raise NoReply(reply)
        if reply is NEEDS_PRODUCER_ID:
            raise NoReply(None)
        return reply  # type: ignore[return-value]  # decide's replies pass through the host

    def commit_journal(self) -> None:
        """The watermark reaches the end: what waited for it leaves."""
        self.host.advance(self.journal.end_offset)

    def write_markers(self) -> list[bool]:
        """Carries out all that was sent, and reports it."""
        sent, self.sent = self.sent, []
        return [self.report(markers) for markers in sent]

    def report(
        self, markers: SendMarkers, *, only: tuple[TopicPartition, ...] | None = None
    ) -> bool:
        """Tells that all partitions, or only these, have their markers. Whether that completed."""
        report = MarkersWritten(
            transactional_id=markers.transactional_id,
            number=markers.number,
            coordinator_epoch=markers.coordinator_epoch,
            partitions=markers.partitions if only is None else only,
        )
        noted = self.ask(report)
        assert isinstance(noted, MarkersNoted)
        return noted.completed

    def pass_time(self, ms: int) -> None:
        """Time passes, and what is due by then is done."""
        self.now_ms += ms
        while True:
            due = decide_due(self.shard, self.context())
            if due is None:
                return
            key = self.shard.deadlines.due(self.context().monotonic_ms)
            before = self._known(key)
            self.submit(lambda due=due: due)  # type: ignore[misc]  # bound as a default
            if isinstance(key, TransactionEnds):
                self.explained += explained(before, self._known(key), key, None)
            if self.journal.is_broken:
                return

    def fail_over(self, *, loses_tail: bool = False, is_compacted: bool = False) -> None:
        """Another node leads: it knows what is in the journal, and no more.

        What was not committed may be lost with the old leader, what was superseded to compaction.
        """
        if loses_tail:
            self.journal.truncate(self.host.watermark)
        self.host.lose_leadership()
        self._load(is_compacted=is_compacted)
        self.check()

    def transaction(self, transactional_id: str = "t") -> Transaction:
        return self.shard.transactions[transactional_id]

    def state(self, transactional_id: str = "t") -> str:
        return self.transaction(transactional_id).state.word

    def check(self) -> None:
        self.host.check()
        self.shard.check()

    def wear_out(self, transactional_id: str = "t", *, epoch: int) -> None:
        """Puts a transactional id that is not in use at a late epoch, as years of use would."""
        worn = replace(self.transaction(transactional_id), producer_epoch=ProducerEpoch(epoch))
        record = TransactionStored(transactional_id=transactional_id, value=worn)
        self.submit(lambda: Decision(reply=None, records=(record,)))

    def _carry_out(self, effect: object) -> None:
        if not isinstance(effect, StopWriter):
            assert isinstance(effect, SendMarkers)
            self.sent.append(effect)

    def _fresh_producer_id(self) -> ProducerId | None:
        if self.producer_ids_left == 0:
            return None
        self.producer_ids_left -= 1
        self._next_producer_id += 1
        return ProducerId(self._next_producer_id)


def partitions(*names: str) -> tuple[TopicPartition, ...]:
    """ "orders-0" and the like."""
    split = [name.rpartition("-") for name in names]
    return tuple(TopicPartition(topic, int(number)) for topic, _, number in split)


@dataclass(slots=True, kw_only=True)
class Client:
    """A producer as one of the two generations of clients; each call gives the error it got."""

    coordinator: Coordinator
    transactional_id: str = "t"
    generation: int = 2
    timeout_ms: int = 60_000
    identity: Identity | None = None
    ongoing: Identity | None = field(default=None)  # what it was told is kept for it

    def init(
        self,
        *,
        trade_in: bool = False,
        two_phase: bool = False,
        keep: bool = False,
        version: int = 6,
    ) -> ErrorCode:
        request = self.init_request(trade_in=trade_in, two_phase=two_phase, keep=keep)
        return self.told(self.coordinator.ask(request, version=version))

    def add(self, *names: str, version: int | None = None) -> ErrorCode:
        request = self.enlist_request(*names)
        default = 3 if self.generation == 1 else 5
        return self.told(
            self.coordinator.ask(request, version=default if version is None else version)
        )

    def verify(self, *names: str) -> list[ErrorCode]:
        reply = self.coordinator.ask(self.enlist_request(*names, verify_only=True), version=5)
        assert isinstance(reply, Enlisted)
        return list(reply.errors.values())

    def commit(self, *, version: int | None = None) -> ErrorCode:
        return self._end(committed=True, version=version)

    def abort(self, *, version: int | None = None) -> ErrorCode:
        return self._end(committed=False, version=version)

    def copy(self) -> "Client":
        """Another process with the same knowledge: a retry, a duplicate, a zombie."""
        return replace(self)

    def init_request(self, *, trade_in: bool, two_phase: bool, keep: bool) -> InitProducerIdRequest:
        held = self.identity if trade_in else None
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=-1 if held is None else held.producer_id,
            producer_epoch=-1 if held is None else held.epoch,
            enable2_pc=two_phase,
            keep_prepared_txn=keep,
        )

    def enlist_request(self, *names: str, verify_only: bool = False) -> Enlist:
        assert self.identity is not None
        return Enlist(
            transactional_id=self.transactional_id,
            producer=self.identity,
            partitions=partitions(*names),
            verify_only=verify_only,
            client_version=2 if self.generation == 2 else 0,
        )

    def end_request(self, *, committed: bool) -> EndTxnRequest:
        assert self.identity is not None
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=committed,
        )

    @property
    def end_version(self) -> int:
        return 5 if self.generation == 2 else 4

    def told(self, reply: object) -> ErrorCode:
        """Learns from a reply; the error that it holds."""
        match reply:
            case Enlisted():
                return reply.error
            case InitProducerIdResponse(error_code=ErrorCode.NONE):
                self.identity = identity(reply.producer_id, reply.producer_epoch)
                has_kept = reply.ongoing_txn_producer_id >= 0
                self.ongoing = (
                    identity(reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch)
                    if has_kept
                    else None
                )
            case EndTxnResponse(error_code=ErrorCode.NONE) if reply.producer_id >= 0:
                self.identity = identity(reply.producer_id, reply.producer_epoch)
        assert isinstance(reply, InitProducerIdResponse | EndTxnResponse), reply
        return ErrorCode(reply.error_code)

    def _end(self, *, committed: bool, version: int | None) -> ErrorCode:
        request = self.end_request(committed=committed)
        return self.told(
            self.coordinator.ask(request, version=self.end_version if version is None else version)
        )


def identity(producer_id: int, epoch: int) -> Identity:
    return Identity(ProducerId(producer_id), ProducerEpoch(epoch))
