"""A leader's answer to the fetch of a follower, in the order in which a broker checks it."""

from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.offset import NO_LEADER_EPOCH
from penstock.replication.follower import Position
from penstock.replication.followers import NO_BROKER_EPOCH
from penstock.replication.leader import find_divergence
from penstock.replication.partition import Partition
from penstock.wire.messages.fetch import EpochEndOffset, PartitionData


def answer_fetch(
    partition: Partition,
    node: NodeId,
    asked: Position,
    *,
    broker_epoch: int,
    registered_epoch: int = NO_BROKER_EPOCH,
    size_bytes_max: int,
    now_ms: int,
) -> tuple[PartitionData, bool]:
    """The answer, and whether the in-sync set should change."""
    refusal = refuse_fetch(
        partition, node, asked, broker_epoch=broker_epoch, registered_epoch=registered_epoch
    )
    if refusal is not None:
        return refusal, False
    wants_change = partition.follower_fetched(
        node,
        offset=asked.fetch_offset,
        broker_epoch=broker_epoch,
        log_start_offset=asked.log_start_offset,
        now_ms=now_ms,
    )
    return read_records(partition, asked, size_bytes_max=size_bytes_max), wants_change


def refuse_fetch(
    partition: Partition,
    node: NodeId,
    asked: Position,
    *,
    broker_epoch: int,
    registered_epoch: int,
) -> PartitionData | None:
    """The answer to a fetch that is not served: an error, or where the logs diverge."""
    log = partition.log
    code = partition.check_follower(
        node,
        leader_epoch=asked.leader_epoch,
        broker_epoch=broker_epoch,
        registered_epoch=registered_epoch,
    )
    if partition.has_ended:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = PartitionData(
        high_watermark=partition.high_watermark, log_start_offset=log.start_offset, records=b""
    )
    if code is ErrorCode.NONE and asked.fetch_offset < log.start_offset:
        code = ErrorCode.OFFSET_OUT_OF_RANGE
    if code is ErrorCode.NONE and asked.last_fetched_epoch != NO_LEADER_EPOCH:
        found = find_divergence(
            log.end_of_epoch(asked.last_fetched_epoch),
            last_fetched_epoch=asked.last_fetched_epoch,
            fetch_offset=asked.fetch_offset,
        )
        if isinstance(found, ErrorCode):
            code = found
        else:
            answer.diverging_epoch = EpochEndOffset(
                epoch=found.leader_epoch, end_offset=found.end_offset
            )
            return answer
    if code is ErrorCode.NONE and asked.fetch_offset > log.end_offset:
        code = ErrorCode.OFFSET_OUT_OF_RANGE
    if code is ErrorCode.NONE:
        return None
    answer.error_code = code
    return answer


def read_records(partition: Partition, asked: Position, *, size_bytes_max: int) -> PartitionData:
    """What a fetch gets that is served; there may be no records yet."""
    answer = PartitionData(
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log.start_offset,
        records=b"",
    )
    found = partition.read_for_follower(
        asked.fetch_offset, size_bytes_max=size_bytes_max, oversized_first=True
    )
    if found is not None and found.span is not None:
        span = found.span
        answer.records = span.file.read_at(span.position, span.byte_count)
    return answer
