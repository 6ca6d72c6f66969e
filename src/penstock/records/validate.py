"""What a leader demands of a batch that a client produced, and what it changes in it.

`check_produced` answers as Apache Kafka does, in Kafka's order, which decides the code when several
rules are broken:

 1. There is a whole batch (INVALID_RECORD); its size and magic make sense (CORRUPT_MESSAGE).
 2. It is of format v2, not zstd for a client too old to say so (UNSUPPORTED_COMPRESSION_TYPE), and
    the only one. Bytes after it that are no whole batch are dropped.
 3. The base offset is 0 (INVALID_RECORD), the size within max.message.bytes (MESSAGE_TOO_LARGE),
    the checksum right (CORRUPT_MESSAGE).
 4. Offsets and record count agree and are positive, it is no control batch, and an idempotent
    producer numbers it (INVALID_RECORD).
 5. The records are well-formed and as many as stated (INVALID_RECORD); each has a key on a
    compacted topic (INVALID_RECORD) and a timestamp within bounds (INVALID_TIMESTAMP). All faulty
    records are listed, up to RECORD_ERRORS_MAX, and one untimely record makes the whole
    INVALID_TIMESTAMP.
 6. After recompression, the size is within max.message.bytes again; in the end it fits into a
    segment (RECORD_LIST_TOO_LARGE).

Where Kafka fails with UNKNOWN_SERVER_ERROR, because decompression does or the codec is unknown, the
producer is told INVALID_RECORD or UNSUPPORTED_COMPRESSION_TYPE, which it does not retry either; a
bomb is MESSAGE_TOO_LARGE. Offset deltas other than 0, 1, 2... are put right, as Kafka does with
compressed batches alone: the producer counts its records from the base offset that it is told.

What changes: timestamp type and max timestamp, in place and with a new checksum, only when they
differ; and with another codec the batch is built anew, with the same producer id, epoch, sequence.
"""

from typing import Final, NoReturn

from penstock.model.error import ErrorCode
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import DECOMPRESSED_BYTES_MAX, RECORD_ERRORS_MAX
from penstock.records.batch import LOG_APPEND_TIME, BatchView, whole_batch
from penstock.records.build import seal_batch
from penstock.records.checksum import crc32c
from penstock.records.compression import Codec, compress
from penstock.records.errors import CorruptBatch, InvalidBatch, NotOneBatch, OversizedBatch
from penstock.records.iterate import payload_of
from penstock.records.layout import (
    ATTRIBUTES_POSITION,
    CHECKSUM_POSITION,
    CODEC_MASK,
    CONTROL_FLAG,
    INT16,
    INT64,
    MAGIC_V2,
    MAX_TIMESTAMP_POSITION,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    UINT32,
    Buffer,
    TimestampType,
)
from penstock.records.scratch import Scratch
from penstock.records.walk import check_records
from penstock.records.walked import Walked
from penstock.records.write import renumber_records

TIMESTAMP_LOW: Final = -(2**63)
TIMESTAMP_HIGH: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1
CODEC_MAX: Final = int(max(Codec))


@dataclass(slots=True, kw_only=True)
class AppendRules:
    """What the topic, and the moment, ask of a produced batch.

    Not frozen: a leader keeps one per partition and moves its time on.
    """

    max_message_bytes: int
    timestamp_type: TimestampType
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compacted: bool
    codec: Codec | None  # None keeps the producer's
    codec_level: int | None
    now_ms: int
    segment_bytes: int = INT32_MAX
    zstd_allowed: bool = True  # not to a produce request below version 7
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    scratch: Scratch | None = None  # None: memory of its own for each batch

    def __post_init__(self) -> None:
        assert self.max_message_bytes >= 0
        assert self.timestamp_before_max_ms >= 0
        assert self.timestamp_after_max_ms >= 0


def check_produced(data: memoryview, rules: AppendRules) -> BatchView:
    """The batch to append: in the memory of `data` where that is possible, else built anew."""
    batch = _only_batch(data, rules)
    _check_header(batch, rules)
    codec = batch.codec
    payload, walked = _check_payload(batch, rules)
    target = codec if rules.codec is None else rules.codec
    if rules.timestamp_type is LOG_APPEND_TIME:
        max_timestamp = rules.now_ms
    else:
        max_timestamp = walked.timestamp_max
    if target is codec and walked.offsets_dense:
        _stamp(batch, rules.timestamp_type, max_timestamp)
    else:
        if not walked.offsets_dense:
            payload = renumber_records(payload, batch.record_count)
        batch = _rebuild(batch, payload, target, rules, max_timestamp)
        _check_size(batch, rules)
    if batch.size_bytes > rules.segment_bytes:
        raise InvalidBatch(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The batch has {batch.size_bytes} bytes, a segment {rules.segment_bytes} at most.",
        )
    assert batch.timestamp_type is rules.timestamp_type
    assert batch.last_offset_delta == batch.record_count - 1
    return batch


def _only_batch(data: memoryview, rules: AppendRules) -> BatchView:
    """Rules 1 and 2."""
    try:
        batch = whole_batch(data)
        if batch is None:
            raise NotOneBatch(
                ErrorCode.INVALID_RECORD, "A produce request must have one batch per partition."
            )
        if batch.magic != MAGIC_V2:
            raise NotOneBatch(
                ErrorCode.INVALID_RECORD,
                f"Only batches of format 2 can be produced, not {batch.magic}.",
            )
        if not rules.zstd_allowed and batch.attributes & CODEC_MASK == Codec.ZSTD:
            raise NotOneBatch(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                "zstd needs a produce request of version 7 or later.",
            )
        if batch.size_bytes < len(data) and whole_batch(data, batch.size_bytes) is not None:
            raise NotOneBatch(
                ErrorCode.INVALID_RECORD,
                "A produce request must have exactly one batch per partition.",
            )
    except CorruptBatch as error:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    return batch


def _check_header(batch: BatchView, rules: AppendRules) -> None:
    """Rules 3 and 4."""
    attributes = batch.attributes
    last_offset_delta = batch.last_offset_delta
    if batch.base_offset != 0:
        _refuse(f"The base offset of a produced batch must be 0, not {batch.base_offset}.")
    _check_size(batch, rules)
    if not batch.checksum_matches():
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE, f"The batch does not match its checksum {batch.checksum}."
        )
    if attributes & CODEC_MASK > CODEC_MAX:
        raise InvalidBatch(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"There is no codec {attributes & CODEC_MASK}.",
        )
    if last_offset_delta < 0:
        _refuse(f"The last offset delta is {last_offset_delta}.")
    if batch.record_count <= 0:
        _refuse(f"The batch says that it has {batch.record_count} records.")
    if last_offset_delta + 1 != batch.record_count:
        _refuse(
            f"The batch has offsets up to {last_offset_delta}"
            f" but says that it has {batch.record_count} records."
        )
    if attributes & CONTROL_FLAG:
        _refuse("Clients may not write control records.")
    if batch.producer_id > NO_PRODUCER_ID and batch.base_sequence < 0:
        _refuse(f"Producer {batch.producer_id} gave the sequence number {batch.base_sequence}.")


def _check_payload(batch: BatchView, rules: AppendRules) -> tuple[Buffer, Walked]:
    """Rule 5."""
    appended = rules.timestamp_type is LOG_APPEND_TIME
    low = rules.now_ms - rules.timestamp_before_max_ms
    high = rules.now_ms + rules.timestamp_after_max_ms
    if appended or low < TIMESTAMP_LOW:
        low = TIMESTAMP_LOW
    if appended or high > TIMESTAMP_HIGH:
        high = TIMESTAMP_HIGH
    try:
        payload = payload_of(
            batch,
            bytes_max=rules.decompressed_bytes_max,
            scratch=rules.scratch,
            blocks_bounded=True,  # what is stored already is read, however it was compressed
        )
        walked = check_records(
            payload, batch.record_count, batch.base_timestamp, low, high, rules.compacted
        )
    except OversizedBatch as error:
        raise InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except CorruptBatch as error:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, str(error)) from error
    if appended and batch.attributes & TIMESTAMP_TYPE_FLAG:
        _refuse_append_time(batch, walked)
    if walked.keyless or walked.untimely:
        untimely = f"The timestamp {{}} is not within [{low}, {high}]."
        _refuse_records(
            walked,
            {index: untimely.format(timestamp) for index, timestamp in walked.untimely},
            untimely_count=walked.untimely_count,
        )
    return payload, walked


def _refuse_append_time(batch: BatchView, walked: Walked) -> NoReturn:
    """Every record is refused: for its missing key, or because its time is not the producer's."""
    listed = range(min(batch.record_count, RECORD_ERRORS_MAX))
    _refuse_records(
        walked,
        dict.fromkeys(listed, "A producer may not set the timestamp type LogAppendTime."),
        untimely_count=batch.record_count - walked.keyless_count,
    )


def _refuse_records(walked: Walked, errors: dict[int, str], *, untimely_count: int) -> NoReturn:
    """`errors` are those of untimely records; a missing key takes the place of one."""
    errors |= dict.fromkeys(walked.keyless, "A compacted topic takes no record without a key.")
    raise InvalidBatch(
        ErrorCode.INVALID_TIMESTAMP if untimely_count else ErrorCode.INVALID_RECORD,
        f"{walked.keyless_count + untimely_count} records were refused"
        + (", of which at least one for its timestamp." if untimely_count else "."),
        tuple(sorted(errors.items())[:RECORD_ERRORS_MAX]),
    )


def _check_size(batch: BatchView, rules: AppendRules) -> None:
    if batch.size_bytes > rules.max_message_bytes:
        raise InvalidBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch has {batch.size_bytes} bytes, {rules.max_message_bytes} are allowed.",
        )


def _stamp(batch: BatchView, timestamp_type: TimestampType, max_timestamp: int) -> None:
    """Writes both into the batch, in place; a batch that has them already is left untouched."""
    if batch.max_timestamp == max_timestamp and batch.timestamp_type is timestamp_type:
        return
    batch.attributes = _with_timestamp_type(batch.attributes, timestamp_type)
    batch.max_timestamp = max_timestamp
    INT16.pack_into(batch.view, ATTRIBUTES_POSITION, batch.attributes)
    INT64.pack_into(batch.view, MAX_TIMESTAMP_POSITION, max_timestamp)
    batch.checksum = crc32c(batch.view[ATTRIBUTES_POSITION:])
    UINT32.pack_into(batch.view, CHECKSUM_POSITION, batch.checksum)


def _rebuild(
    batch: BatchView, payload: Buffer, codec: Codec, rules: AppendRules, max_timestamp: int
) -> BatchView:
    """The same records in a new batch. Of the flags only those survive that have a meaning here."""
    attributes = codec | batch.attributes & TRANSACTIONAL_FLAG
    rebuilt = seal_batch(
        compress(codec, payload, rules.codec_level),
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        attributes=_with_timestamp_type(attributes, rules.timestamp_type),
        base_timestamp=batch.base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=batch.record_count,
    )
    return BatchView(memoryview(rebuilt))


def _with_timestamp_type(attributes: int, timestamp_type: TimestampType) -> int:
    if timestamp_type is LOG_APPEND_TIME:
        return attributes | TIMESTAMP_TYPE_FLAG
    return attributes & ~TIMESTAMP_TYPE_FLAG


def _refuse(message: str) -> NoReturn:
    raise InvalidBatch(ErrorCode.INVALID_RECORD, message)
