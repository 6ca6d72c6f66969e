"""Decisions of more records than one batch holds: framed, so that readers see all of it or nothing.

    BeginTransaction | records, in several batches | EndTransaction        (KIP-868)

The frame is appended in one step. A crash may keep a part of it; then nothing of it has happened,
and the next controller appends AbortTransaction before it decides anything. Nothing stands between
begin and end except what Raft itself writes, and no snapshot ends inside a frame.
"""

from collections.abc import Iterable, Sequence

from penstock.metadata.records import (
    LogRecord,
    MetadataRecord,
    UnreadableMetadata,
    encode_record,
)
from penstock.model.limit import DECISION_BYTES_MAX, DECISION_RECORDS_MAX
from penstock.records.build import RECORD_OVERHEAD_BYTES_MAX
from penstock.wire.messages.metadata_records.transaction import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)


def batched(
    records: Sequence[MetadataRecord],
    *,
    records_max: int = DECISION_RECORDS_MAX,
    bytes_max: int = DECISION_BYTES_MAX,
) -> list[list[bytes]]:
    """The values of a decision's batches: one batch, or several with a frame around them.

    What a client asks for has `records_max` records at most and stays one batch, as in Apache
    Kafka: if that is larger than `bytes_max`, the caller refuses it.
    """
    if len(records) <= records_max:
        return [[encode_record(record) for record in records]]
    framed: list[LogRecord] = [BeginTransactionRecord(), *records, EndTransactionRecord()]
    batches: list[list[bytes]] = [[]]
    size_bytes = 0
    for record in framed:
        value = encode_record(record)
        size_bytes += len(value) + RECORD_OVERHEAD_BYTES_MAX
        if len(batches[-1]) == records_max or size_bytes > bytes_max - BATCH_HEADER_ROOM_BYTES:
            batches.append([])
            size_bytes = len(value) + RECORD_OVERHEAD_BYTES_MAX
        batches[-1].append(value)
    return batches


class FrameReader:
    """Follows the log's records and yields those that take effect, in their order."""

    def __init__(self) -> None:
        self._held: list[MetadataRecord] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a frame has begun and neither ended nor was aborted."""
        return self._held is not None

    def read(self, records: Iterable[LogRecord]) -> list[MetadataRecord]:
        """What these records put into effect. UnreadableMetadata when frames do not fit."""
        effective: list[MetadataRecord] = []
        for record in records:
            match record:
                case BeginTransactionRecord():
                    if self._held is not None:
                        raise UnreadableMetadata("a frame begins inside another one")
                    self._held = []
                case EndTransactionRecord():
                    effective.extend(self._taken("ends"))
                case AbortTransactionRecord():
                    self._taken("is aborted")
                case _:
                    (effective if self._held is None else self._held).append(record)
        return effective

    def _taken(self, event: str) -> list[MetadataRecord]:
        if self._held is None:
            raise UnreadableMetadata(f"a frame {event} that did not begin")
        held, self._held = self._held, None
        return held


BATCH_HEADER_ROOM_BYTES = 64
