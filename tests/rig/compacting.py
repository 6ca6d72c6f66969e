"""Compacted logs for tests: keyed appends, a pass run to its end, and what a reader then knows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from penstock.log.compaction.cleaner import Finished, PassItem, clean_log
from penstock.log.compaction.owner import take_up
from penstock.log.compaction.plan import CleanerLimits, CleaningPass, dirt_of, plan_pass
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.control import EndTransaction, end_transaction_batch
from penstock.records.iterate import records_of
from penstock.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.records.record import Record
from penstock.world.ports import Disk, Rest
from rig.logs import NOW_MS

COMPACTED = TopicSettings(
    cleanup_policy=frozenset({"compact"}), segment_bytes=1000, index_interval_bytes=150
)
LIMITS = CleanerLimits(memory_bytes=2**20, load_factor=0.9, bytes_per_second=1e18)
Update = tuple[str, str | None]  # a key, and its value; None deletes it


def batch_of(
    *updates: Update,
    base_offset: int,
    now_ms: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer: int = NO_PRODUCER_ID,
    epoch: int = 0,
    sequence: int = -1,
    transactional: bool = False,
) -> BatchView:
    data = build_batch(
        [
            Record(key.encode(), None if value is None else value.encode(), timestamp_ms=now_ms)
            for key, value in updates
        ],
        base_offset=Offset(base_offset),
        leader_epoch=LeaderEpoch(0),
        codec=codec,
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(NO_PRODUCER_EPOCH if producer < 0 else epoch),
        base_sequence=sequence,
        transactional=transactional,
    )
    return BatchView(memoryview(data))


def put(
    log: PartitionLog,
    *updates: Update,
    now_ms: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer: int = NO_PRODUCER_ID,
    epoch: int = 0,
    sequence: int = -1,
    transactional: bool = False,
) -> BatchView:
    """One batch of updates at the log's end."""
    batch = batch_of(
        *updates,
        base_offset=log.end_offset,
        now_ms=now_ms,
        codec=codec,
        producer=producer,
        epoch=epoch,
        sequence=sequence,
        transactional=transactional,
    )
    log.append([batch], now_ms=now_ms)
    return batch


def end_transaction(
    log: PartitionLog, producer: int, *, committed: bool, epoch: int = 0, now_ms: int = NOW_MS
) -> None:
    """The marker of a producer's transaction at the log's end."""
    data = end_transaction_batch(
        EndTransaction(committed=committed, coordinator_epoch=0),
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(epoch),
        timestamp_ms=now_ms,
        base_offset=log.end_offset,
        leader_epoch=LeaderEpoch(0),
    )
    log.append([BatchView(memoryview(data))], now_ms=now_ms)


def seal(log: PartitionLog) -> None:
    """Ends the active segment and syncs: all that is there can be compacted."""
    log.roll()
    log.sync()


def clean(
    disk: Disk,
    log: PartitionLog,
    *,
    cleaned_offset: int | None = None,
    now_ms: int = NOW_MS,
    memory_bytes: int = LIMITS.memory_bytes,
) -> Offset:
    """Runs one pass, as a broker does; how far the log is compacted then."""
    for item in clean_in_steps(
        disk, log, cleaned_offset=cleaned_offset, now_ms=now_ms, memory_bytes=memory_bytes
    ):
        if isinstance(item, Finished):
            return item.end_offset
    raise AssertionError("a pass without an end")


def clean_in_steps(
    disk: Disk,
    log: PartitionLog,
    *,
    cleaned_offset: int | None = None,
    now_ms: int = NOW_MS,
    memory_bytes: int = LIMITS.memory_bytes,
) -> Iterator[PassItem]:
    """The same, for who looks on or stops between two steps."""
    wanted = plan(log, cleaned_offset=cleaned_offset, now_ms=now_ms, memory_bytes=memory_bytes)
    for item in clean_log(disk, wanted):
        if isinstance(item, Rest):
            continue
        assert take_up(log, item)
        log.check()
        yield item


def plan(
    log: PartitionLog,
    *,
    cleaned_offset: int | None = None,
    now_ms: int = NOW_MS,
    memory_bytes: int = LIMITS.memory_bytes,
) -> CleaningPass:
    """A pass over all that can be compacted."""
    open_offset = log.producers.first_open_offset
    dirt = dirt_of(
        log,
        cleaned_offset=None if cleaned_offset is None else Offset(cleaned_offset),
        stable_offset=log.end_offset if open_offset is None else open_offset,
        now_ms=now_ms,
    )
    return plan_pass(log, dirt, replace(LIMITS, memory_bytes=memory_bytes), now_ms=now_ms)


def stored(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    """Every record, with its offset."""
    return [
        (record.offset, text(record.key), None if record.value is None else text(record.value))
        for batch in log.batches_from(log.start_offset)
        if not batch.is_control
        for record in records_of(batch)
        if record.offset >= log.start_offset
    ]


def state(log: PartitionLog) -> dict[str, str]:
    """What somebody knows who has read the log from its start."""
    return state_of([(key, value) for _, key, value in stored(log)])


def state_of(updates: Sequence[Update]) -> dict[str, str]:
    known: dict[str, str] = {}
    for key, value in updates:
        if value is None:
            known.pop(key, None)
        else:
            known[key] = value
    return known


def text(data: bytes | None) -> str:
    return "" if data is None else data.decode()
