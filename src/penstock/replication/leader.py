"""The rules by which the leader of a partition accepts or refuses a batch.

Everything here decides and changes nothing: `replication/partition` carries a plan out. Start at
`plan_append`.

An idempotent producer numbers its records: each batch has a producer id, an epoch and the
sequence of its first record. The log remembers the last five batches of every producer, so the
leader can tell

    a batch that continues the last one      -> AppendPlan
    a retry of one of these five             -> Duplicate: acked with its first offset
    a retry of one before them               -> Duplicate: acked without an offset (ADR 56)
    anything else                            -> Refusal: a gap

A producer without remembered state may begin anywhere: its records may have been deleted or
expired, and refusing would stop it for good. A new epoch of a known producer must begin at
sequence 0.

A batch behind one that was refused with a retriable code is refused with the same code
(`replication/refused_sequences`).

Records of a transaction are accepted only if it is open in this partition, or has just been
verified by its coordinator (`replication/guard`).
"""

from collections.abc import Mapping
from typing import Final

from penstock.log.epochs import EpochEnd
from penstock.log.producer_state import ProducerState
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from penstock.model.sequence import SEQUENCE_MAX
from penstock.records.batch import BatchHeader
from penstock.records.layout import NO_PRODUCER_ID, NO_TIMESTAMP

NO_ERROR: Final = ErrorCode.NONE  # at hand: to look it up in the enum costs as much as a call


@dataclass(slots=True, kw_only=True, init=False)
class AppendPlan:
    """The batch is appended with this base offset and leader epoch.

    Built per batch: see `log/reading` on its `__init__`.
    """

    base_offset: Offset
    leader_epoch: LeaderEpoch

    def __init__(self, *, base_offset: Offset, leader_epoch: LeaderEpoch) -> None:
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch


@dataclass(slots=True, kw_only=True)
class Duplicate:
    """The batch is in the log already: the reply is the same as the first time. One that is older
    than those remembered has NO_OFFSET as its base, and ends at `last_offset` or before.
    """

    base_offset: Offset
    last_offset: Offset
    timestamp_ms: int


@dataclass(slots=True, kw_only=True)
class Refusal:
    code: ErrorCode
    message: str


def plan_append(
    batch: BatchHeader,
    *,
    end_offset: Offset,
    leader_epoch: LeaderEpoch,
    producers: Mapping[ProducerId, ProducerState],
    verified: bool = False,
    first_sequence: int | None = None,
    earlier_code: ErrorCode | None = None,
) -> AppendPlan | Duplicate | Refusal:
    """Decides what to do with a valid batch from a client.

    `verified`: its transaction is open. `first_sequence`: the highest sequence with which an
    unknown producer may begin, if there is such a bound. `earlier_code`: the code with which an
    earlier batch of the producer was refused, if that batch is expected again.
    """
    assert end_offset >= 0, end_offset
    assert leader_epoch >= 0, leader_epoch
    verdict: Duplicate | Refusal | None = None
    if batch.producer_id > NO_PRODUCER_ID:  # Kafka takes all below 0 for none
        producer = producers.get(batch.producer_id)
        if producer is not None:
            verdict = check_sequence(batch, producer)
        elif first_sequence is not None and batch.base_sequence > first_sequence:
            verdict = _refuse_gap(batch, expected=first_sequence)
        if earlier_code is not None and (verdict is None or _is_gap(verdict)):
            verdict = _refuse_before_earlier(batch, earlier_code)
    if batch.is_transactional and not verified and not isinstance(verdict, Duplicate):
        return Refusal(
            code=ErrorCode.INVALID_TXN_STATE,
            message="Record was not part of an ongoing transaction",
        )
    if verdict is not None:
        return verdict
    return AppendPlan(base_offset=end_offset, leader_epoch=leader_epoch)


def check_sequence(batch: BatchHeader, producer: ProducerState) -> Duplicate | Refusal | None:
    """None when the batch is the next one of a known producer."""
    assert batch.producer_id == producer.producer_id
    known_epoch = producer.epoch
    if batch.producer_epoch < known_epoch:
        return Refusal(
            code=ErrorCode.INVALID_PRODUCER_EPOCH,
            message=(
                f"producer {batch.producer_id} has epoch {known_epoch}: "
                f"the batch of epoch {batch.producer_epoch} is fenced"
            ),
        )
    if batch.producer_epoch > known_epoch:
        return _check_first_of_epoch(batch, known_epoch) or _check_transaction(batch, producer)
    remembered = producer.batches
    first, last = batch.base_sequence, batch.last_sequence
    # Newest first: of several requests in flight, the retried one is most often among the latest.
    for memory in reversed(remembered):
        if memory.base_sequence == first and memory.last_sequence == last:
            return Duplicate(
                base_offset=Offset(memory.last_offset - memory.offset_delta),
                last_offset=memory.last_offset,
                timestamp_ms=memory.timestamp_ms,
            )
    # A producer of whom only the epoch is known, after a transaction marker, begins at 0.
    expected = (remembered[-1].last_sequence + 1) & SEQUENCE_MAX if remembered else 0
    if first != expected:
        if remembered and _is_older(batch, producer):
            oldest = remembered[0]
            return Duplicate(
                base_offset=NO_OFFSET,
                last_offset=Offset(oldest.last_offset - oldest.offset_delta - 1),
                timestamp_ms=NO_TIMESTAMP,
            )
        return _refuse_gap(batch, expected=expected)
    return _check_transaction(batch, producer)


def _is_older(batch: BatchHeader, producer: ProducerState) -> bool:
    """Whether all of the batch is in the log before the oldest batch that is remembered."""
    oldest, newest = producer.batches[0].base_sequence, producer.batches[-1].last_sequence
    if min(batch.base_sequence, oldest, producer.unbroken_from) < 0:
        return False
    # Counted from the newest sequence: the gap may be among the batches that are remembered.
    remembered = (newest - oldest) & SEQUENCE_MAX
    known = (newest - producer.unbroken_from) & SEQUENCE_MAX
    behind = (oldest - batch.base_sequence) & SEQUENCE_MAX
    # Farther than half of all sequences lies what comes next, and not what came before.
    return batch.last_offset_delta < behind <= min(known - remembered, SEQUENCE_MAX // 2)


def _refuse_gap(batch: BatchHeader, *, expected: int) -> Refusal:
    found = batch.base_sequence
    return Refusal(
        code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        message=f"producer {batch.producer_id} sent sequence {found}, expected {expected}",
    )


def _is_gap(verdict: Duplicate | Refusal) -> bool:
    return isinstance(verdict, Refusal) and verdict.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def _refuse_before_earlier(batch: BatchHeader, code: ErrorCode) -> Refusal:
    return Refusal(
        code=code,
        message=(
            f"an earlier batch of producer {batch.producer_id} was refused with {code.name}: "
            f"send it again before sequence {batch.base_sequence}"
        ),
    )


def _check_first_of_epoch(batch: BatchHeader, known_epoch: int) -> Refusal | None:
    # An entry without an epoch is no more than a place holder: it knows of no sequence.
    if batch.base_sequence != 0 and known_epoch >= 0:
        return Refusal(
            code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            message=(
                f"producer {batch.producer_id} begins epoch {batch.producer_epoch} with sequence "
                f"{batch.base_sequence} instead of 0"
            ),
        )
    return None


def _check_transaction(batch: BatchHeader, producer: ProducerState) -> Refusal | None:
    # Of a later epoch too: the open transaction's marker would come too late for it, for ever.
    if producer.current_txn_first_offset is None or batch.is_transactional:
        return None
    return Refusal(
        code=ErrorCode.INVALID_TXN_STATE,
        message=f"producer {batch.producer_id} has an open transaction",
    )


def refuse_too_few_in_sync(
    *, in_sync_count: int, replica_count: int, in_sync_min: int
) -> Refusal | None:
    """A write with acks=all needs `min.insync.replicas`, or all replicas where there are fewer.
    Others that are being copied may be in sync already.
    """
    assert in_sync_count >= 1, in_sync_count
    required = min(in_sync_min, replica_count)
    if in_sync_count >= required:
        return None
    return Refusal(
        code=ErrorCode.NOT_ENOUGH_REPLICAS,
        message=f"in-sync replicas: {in_sync_count}, required: {required} (min.insync.replicas)",
    )


def check_leader_epoch(*, asked: int, known: LeaderEpoch) -> ErrorCode:
    """Whether a request with leader epoch `asked` may be served; -1 stands for any."""
    assert known >= 0, known
    if asked in (NO_LEADER_EPOCH, known):
        return NO_ERROR
    return ErrorCode.FENCED_LEADER_EPOCH if asked < known else ErrorCode.UNKNOWN_LEADER_EPOCH


def find_divergence(
    end: EpochEnd | None, *, last_fetched_epoch: int, fetch_offset: int
) -> EpochEnd | ErrorCode:
    """Whether the log of a fetcher whose last record has `last_fetched_epoch` agrees with ours.

    `end` is where that epoch ends here. NONE when the logs agree; else the largest epoch, and its
    end, up to which they can agree, or OFFSET_OUT_OF_RANGE when the epoch is unknown.
    """
    if end is None:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if end.leader_epoch < last_fetched_epoch or end.end_offset < fetch_offset:
        return end
    return NO_ERROR
