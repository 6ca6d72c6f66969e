"""Applies batches to the state of producers: on append, on recovery and on replay alike."""

from penstock.log.aborted_index import AbortedTransaction
from penstock.log.producer_state import CompletedTransaction, ProducerStates, TransactionEnd
from penstock.log.segment import Segment
from penstock.records.batch import BatchView
from penstock.records.control import read_end_transaction
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of
from penstock.records.layout import NO_PRODUCER_ID


def take_up_control(producers: ProducerStates, batch: BatchView, segment: Segment) -> None:
    """Applies a control batch to the producers, and adds an abort to the index of its segment."""
    completed = _apply(producers, batch)
    if completed is not None and not completed.committed:
        segment.note_aborted(
            AbortedTransaction(
                producer_id=completed.producer_id,
                first_offset=completed.first_offset,
                last_offset=completed.last_offset,
                last_stable_offset=completed.last_stable_offset,
            )
        )


def replay(producers: ProducerStates, segment: Segment) -> None:
    """Applies the rest of a segment whose indexes are valid already: only producers change."""
    if segment.size_bytes == 0:
        return
    start = segment.position_of(producers.end_offset)
    for _, batch in segment.batches(start=start):
        if batch.next_offset <= producers.end_offset:
            continue
        _apply(producers, batch)


def _apply(producers: ProducerStates, batch: BatchView) -> CompletedTransaction | None:
    if batch.producer_id <= NO_PRODUCER_ID or not batch.is_control:
        producers.apply(batch)
        return None
    end = _transaction_end(batch)
    if end is None:
        producers.pass_over(batch.next_offset)
        return None
    return producers.end_transaction(end)


def _transaction_end(batch: BatchView) -> TransactionEnd | None:
    """The marker in a control batch; None when compaction has emptied it or it makes no sense."""
    try:
        record = next(iter(records_of(batch)), None)
        marker = None if record is None else read_end_transaction(record)
    except CorruptBatch:
        return None
    if record is None or marker is None:
        return None
    return TransactionEnd(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        committed=marker.committed,
        offset=batch.base_offset,
        timestamp_ms=record.timestamp_ms,
    )
