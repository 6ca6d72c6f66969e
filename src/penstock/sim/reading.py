"""What a log holds in the end, as a client reads it: every record, from the first to the last."""

from dataclasses import dataclass, field

from penstock.client.admin.admin import Admin
from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import ListedOffset, When, list_offsets
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.records.errors import CorruptBatch
from penstock.sim.errors import Violation

READ_MS_MAX = 120_000
TRIES_MAX = 50


@dataclass(slots=True, kw_only=True)
class FinalLog:
    """One partition as it was read; `broken_at` tells where a corrupt batch stopped the reader."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    compacted: bool
    records: list[ConsumedRecord] = field(default_factory=list)
    broken_at: int | None = None

    @property
    def readable_until(self) -> int:
        return self.end_offset if self.broken_at is None else self.broken_at


async def read_all(
    cluster: Cluster,
    partitions: list[TopicPartition],
    *,
    compacted: frozenset[str],
    partition_bytes_max: int,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> list[FinalLog]:
    if not partitions:
        return []
    starts = await list_offsets(cluster, dict.fromkeys(partitions, When.EARLIEST))
    latest = dict.fromkeys(partitions, When.LATEST)
    ends = await list_offsets(cluster, latest, isolation=isolation)
    logs = [
        FinalLog(
            partition=one,
            start_offset=_offset(one, starts[one]),
            end_offset=_offset(one, ends[one]),
            compacted=one.topic in compacted,
        )
        for one in partitions
    ]
    rules = ConsumerRules(
        reset=Reset.NONE,
        fetch=FetchRules(partition_bytes_max=partition_bytes_max, isolation=isolation),
    )
    for log in logs:
        async with Consumer(cluster, rules=rules) as consumer:
            await _read_what_stays(consumer, log)
    return logs


async def _read_what_stays(consumer: Consumer, log: FinalLog) -> None:
    """Retention goes on while a log is read: where its beginning has gone, it is read anew."""
    for _ in range(TRIES_MAX):
        try:
            await _read(consumer, log)
        except Refused as refused:
            if refused.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            listed = await Admin(consumer.cluster).list_offsets({log.partition: When.EARLIEST})
            log.start_offset = _offset(log.partition, listed[log.partition])
            log.records.clear()
        else:
            return
    raise Violation("readable", f"{log.partition} begins elsewhere each time it is read")


async def _read(consumer: Consumer, log: FinalLog) -> None:
    clock = consumer.cluster.clock
    deadline_ms = clock.monotonic_ms() + READ_MS_MAX
    await consumer.assign([log.partition])
    consumer.seek(log.partition, log.start_offset)
    while await consumer.position(log.partition) < log.end_offset:
        if clock.monotonic_ms() > deadline_ms:
            position = await consumer.position(log.partition)
            raise Violation(
                "readable",
                f"{log.partition} of [{log.start_offset}, {log.end_offset}) cannot be read beyond"
                f" offset {position}",
            )
        try:
            log.records += await consumer.poll(wait_ms=2_000)
        except CorruptBatch:
            log.broken_at = await consumer.position(log.partition)
            return


def _offset(partition: TopicPartition, listed: object) -> int:
    if not isinstance(listed, ListedOffset) or listed.offset is None:
        raise Violation("readable", f"{partition} does not tell its offsets: {listed}")
    return listed.offset
