"""A `read_committed` reader of a log, as clients do it.

A fetch brings batches, and a list of aborted transactions by first offset. Going through the
batches, a producer is aborted from the first offset of one of these transactions on until its abort
marker; nothing is known from one fetch to the next.
"""

from penstock.log.aborted_index import AbortedTransaction
from penstock.log.partition_log import PartitionLog
from penstock.log.reading import ReadBounds
from penstock.model.identity import ProducerId
from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.records.control import ControlType, control_type
from penstock.records.iterate import records_of
from penstock.records.record import Record
from rig.logs import whole


def stable_offset(log: PartitionLog) -> Offset:
    """Where a reader must stop; nothing of these logs waits for a replica."""
    open_offset = log.producers.first_open_offset
    return log.end_offset if open_offset is None else max(open_offset, log.start_offset)


def read_committed(
    log: PartitionLog, from_offset: int | None = None, *, size_bytes_max: int = 600
) -> list[Record]:
    """What a consumer is given from an offset on, fetch by fetch."""
    offset = log.start_offset if from_offset is None else Offset(from_offset)
    until_offset = stable_offset(log)
    given: list[Record] = []
    while offset < until_offset:
        found = log.read(
            ReadBounds(
                from_offset=offset,
                until_offset=until_offset,
                size_bytes_max=size_bytes_max,
                oversized_first=True,
            )
        )
        batches = whole(found)
        if not batches:
            break  # nothing is left up to there
        aborted = log.aborted_within(
            from_offset=offset, until_offset=min(until_offset, log.end_of(found))
        )
        given += of_one_fetch(batches, aborted, from_offset=offset)
        offset = batches[-1].next_offset
    return given


def of_one_fetch(
    batches: list[BatchView],
    aborted: tuple[AbortedTransaction, ...],
    *,
    from_offset: Offset,
) -> list[Record]:
    assert list(aborted) == sorted(aborted, key=lambda one: one.first_offset)
    to_begin = list(aborted)
    aborting: set[ProducerId] = set()
    given = []
    for batch in batches:
        while to_begin and to_begin[0].first_offset <= batch.last_offset:
            aborting.add(to_begin.pop(0).producer_id)
        if batch.is_control:
            if any(control_type(one) is ControlType.ABORT for one in records_of(batch)):
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            given += [record for record in records_of(batch) if record.offset >= from_offset]
    return given
