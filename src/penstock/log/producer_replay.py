"""Applies batches to the state of producers: on append, on recovery and on replay alike.

A replay reads headers, and whole batches only where they are markers. It takes steps, so that it
need not hold up an event loop: a segment may have a million batches.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from penstock.log.aborted_index import AbortedTransaction
from penstock.log.producer_state import CompletedTransaction, ProducerStates, TransactionEnd
from penstock.log.segment import Segment
from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.records.control import read_end_transaction
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of
from penstock.records.layout import NO_PRODUCER_ID

BATCHES_PER_STEP: Final = 500


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


def replay(
    producers: ProducerStates, segments: Sequence[Segment], *, until_offset: Offset
) -> Iterator[None]:
    """Applies what the segments have from the producers' end on, up to `until_offset`; yields after
    each step. The segments' indexes are valid already: only producers change.
    """
    count = 0
    for slot, segment in enumerate(segments):
        is_last = slot + 1 == len(segments)
        ends = until_offset if is_last else segments[slot + 1].base_offset
        if ends <= producers.end_offset or segment.size_bytes == 0:
            continue
        start = segment.position_of(producers.end_offset)
        for position, header in segment.headers_from(start):
            next_offset = header.next_offset
            if next_offset <= producers.end_offset:
                continue
            if next_offset > until_offset:
                return
            if header.is_control:
                _apply(producers, segment.batch_at(position, header.size_bytes))
            else:
                producers.apply(header)
            count += 1
            if count % BATCHES_PER_STEP == 0:
                yield


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
        offset=batch.last_offset,  # the only one, unless the batch is of a strange leader
        timestamp_ms=record.timestamp_ms,
    )
