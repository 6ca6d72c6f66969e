"""Markers: how a decision reaches the partitions, and how they report back.

`SendMarkers` is an effect: it is carried out once the decision is committed in the journal. The
shell writes a marker to each partition, however long that takes, and reports with `MarkersWritten`;
the last partition completes the transaction. A deleted partition counts as written.

A report may arrive late or twice, even after its transaction is complete: the number of the
decision shows this. After a failover `resume` sends all markers of incomplete decisions again, so
partitions may get a marker twice; the coordinator epoch distinguishes old from new markers.
"""

from collections.abc import Iterator

from penstock.machine.decision import Decision
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.transactions.changes import PartitionsMarked
from penstock.transactions.decision_context import DecisionContext
from penstock.transactions.records import TransactionStored, stored
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import Transaction, TransactionState

COMPLETES = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMarkers:
    """An effect: writes the markers of a transaction to these partitions."""

    transactional_id: str
    number: int  # of the decision, to be named in reports
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int  # 2: the epoch is above every one that wrote in the transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWriter:
    """An effect: another client has taken over the transaction to end it. From now on these
    partitions refuse further batches of it.
    """

    producer_id: ProducerId
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersWritten:
    """These partitions have committed their markers: some or all of those of one SendMarkers."""

    transactional_id: str
    number: int
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersNoted:
    """The reply to a report. `completed`: the transactional id can begin its next transaction."""

    completed: bool


def markers_of(shard: TransactionShard, decided: Transaction, *, number: int) -> SendMarkers:
    assert decided.is_decided, decided
    return SendMarkers(
        transactional_id=decided.transactional_id,
        number=number,
        producer_id=decided.producer_id,
        producer_epoch=decided.producer_epoch,
        coordinator_epoch=shard.coordinator_epoch,
        commit=decided.state is TransactionState.PREPARE_COMMIT,
        partitions=decided.partitions,
        transaction_version=decided.client_version,
    )


def stop_writer(kept: Transaction) -> StopWriter:
    assert kept.is_kept, kept
    return StopWriter(producer_id=kept.writer.producer_id, partitions=kept.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToResume:
    """What is looked at in one step after a shard was loaded; each id comes once, in one step."""

    unmarked: tuple[str, ...]  # ids of decided transactions
    transactional_ids: tuple[str, ...]
    is_last: bool


def to_resume(shard: TransactionShard, *, ids_per_step: int) -> Iterator[ToResume]:
    """All of it, as it is now."""
    unmarked, all_ids = tuple(shard.unmarked), tuple(shard.transactions)
    for start in range(0, max(len(all_ids), 1), ids_per_step):
        end = start + ids_per_step
        yield ToResume(
            unmarked=unmarked[start:end],
            transactional_ids=all_ids[start:end],
            is_last=end >= len(all_ids),
        )


def resume(shard: TransactionShard, some: ToResume) -> tuple[SendMarkers | StopWriter, ...]:
    """The markers that a shard still has to send after it was loaded."""
    unmarked = (
        markers_of(shard, shard.transactions[each], number=shard.unmarked[each].number)
        for each in some.unmarked
    )
    found = map(shard.transactions.__getitem__, some.transactional_ids)
    kept = (stop_writer(each) for each in found if each.is_kept)
    return (*unmarked, *kept)


def decide_written(
    shard: TransactionShard, context: DecisionContext, report: MarkersWritten
) -> Decision[TransactionStored, MarkersNoted]:
    unmarked = shard.unmarked.get(report.transactional_id)
    if (
        unmarked is None
        or unmarked.number != report.number
        or report.coordinator_epoch != shard.coordinator_epoch
    ):
        return Decision.refuse(MarkersNoted(completed=False))
    marked = frozenset(report.partitions)
    if marked.issuperset(unmarked.partitions):
        done = complete(shard.transactions[report.transactional_id], now_ms=context.now_ms)
        return Decision(reply=MarkersNoted(completed=True), records=(stored(done),))
    change = PartitionsMarked(transactional_id=report.transactional_id, partitions=marked)
    return Decision(reply=MarkersNoted(completed=False), volatile=(change,))


def complete(decided: Transaction, *, now_ms: int) -> Transaction:
    """Completes a decided transaction: its client may begin the next one, with its own identity."""
    return decided.become(
        COMPLETES[decided.state],
        producer_id=decided.identity.producer_id,
        producer_epoch=decided.identity.epoch,
        next_identity=None,
        partitions=(),
        last_update_ms=now_ms,
    )
