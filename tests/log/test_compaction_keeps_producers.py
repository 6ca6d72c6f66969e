"""What producers and transactions need of a log outlasts compaction."""

import pytest

from penstock.model.identity import ProducerId
from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.records.layout import HEADER_BYTES
from rig.compacting import COMPACTED, clean, end_transaction, put, seal, stored
from rig.logs import NOW_MS, open_log
from rig.memory_disk import MemoryDisk

RETENTION_MS = COMPACTED.delete_retention_ms


def test_last_batch_of_a_producer_stays_as_a_bare_header() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "1"), ("bob", "1"), producer=7, sequence=0)
    put(log, ("ada", "2"), ("bob", "2"), producer=7, sequence=2)
    put(log, ("ada", "3"), ("bob", "3"))
    seal(log)
    clean(disk, log)
    empty, full = log.batches_from(Offset(0))
    assert (empty.size_bytes, empty.record_count) == (HEADER_BYTES, 0)
    assert (empty.base_offset, empty.last_offset, empty.last_sequence) == (2, 3, 3)
    assert empty.checksum_matches()
    assert (full.base_offset, full.record_count) == (4, 2)
    # A start that has to learn the producers from the batches comes to the same.
    for name in disk.names("/data/orders-0"):
        if name.endswith(".snapshot"):
            disk.remove(f"/data/orders-0/{name}")
    again = open_log(disk.after_kill(), settings=COMPACTED).log
    [memory] = again.producers.by_id[ProducerId(7)].batches
    assert (memory.last_sequence, memory.last_offset) == (3, 3)


def test_batch_of_a_forgotten_producer_goes_as_a_whole() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "1"), producer=7, sequence=0)
    put(log, ("ada", "2"))
    seal(log)
    log.expire_producers(NOW_MS + 2 * 86_400_000)
    clean(disk, log)
    assert [batch.base_offset for batch in log.batches_from(Offset(0))] == [1]


def test_last_offset_of_a_round_is_not_lost() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "1"))
    put(log, ("ada", None))
    seal(log)
    clean(disk, log)
    put(log, ("bob", "1"))
    seal(log)
    clean(disk, log, now_ms=NOW_MS + RETENTION_MS)
    assert stored(log) == [(2, "bob", "1")]
    put(log, ("bob", None))
    seal(log)
    clean(disk, log)
    clean(disk, log, now_ms=NOW_MS + 2 * RETENTION_MS)
    assert stored(log) == []
    [last] = log.batches_from(Offset(0))
    assert (last.record_count, last.next_offset) == (0, 4)


def test_aborted_records_go_and_do_not_hide_committed_ones() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "committed"), producer=1, sequence=0, transactional=True)
    end_transaction(log, 1, committed=True)
    put(log, ("ada", "aborted"), producer=2, sequence=0, transactional=True)
    end_transaction(log, 2, committed=False)
    put(log, ("bob", "1"))
    seal(log)
    clean(disk, log)
    assert stored(log) == [(0, "ada", "committed"), (4, "bob", "1")]


@pytest.mark.parametrize("committed", [True, False])
def test_marker_goes_after_its_records_and_its_time(committed: bool) -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "1"), producer=1, sequence=0, transactional=True)
    end_transaction(log, 1, committed=committed)
    put(log, ("ada", "2"), producer=1, sequence=1, transactional=True)
    end_transaction(log, 1, committed=True)
    seal(log)

    def marker() -> BatchView | None:
        found = [one for one in log.batches_from(Offset(0)) if one.base_offset == 1]
        return found[0] if found else None

    clean(disk, log)  # the record goes; this pass has still seen it
    first = marker()
    assert first is not None and first.delete_horizon_ms is None
    clean(disk, log)
    second = marker()
    assert second is not None and second.delete_horizon_ms == NOW_MS + RETENTION_MS
    clean(disk, log, now_ms=NOW_MS + RETENTION_MS - 1)
    assert marker() is not None
    clean(disk, log, now_ms=NOW_MS + RETENTION_MS)
    assert marker() is None
    assert stored(log) == [(2, "ada", "2")]


def test_aborted_transaction_is_told_to_readers_while_its_records_may_be_read() -> None:
    disk = MemoryDisk()
    log = open_log(disk, settings=COMPACTED).log
    put(log, ("ada", "1"), producer=1, sequence=0, transactional=True)
    seal(log)
    end_transaction(log, 1, committed=False)
    put(log, ("bob", "1"))
    log.sync()
    clean(disk, log)  # the first segment alone: the marker lies in the active one
    assert stored(log) == [(2, "bob", "1")]
    [told] = log.aborted_within(from_offset=Offset(0), until_offset=Offset(3))
    assert told.producer_id == 1
