"""What a file of a log holds, as rows. Which kind of file it is, its name says.

Rows come one by one, so that a segment of a gigabyte is never held. What is wrong in a file ends
its rows and is left in `error`; what stood before it has been shown.
"""

import os.path
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct

from penstock.log import layout
from penstock.log.aborted_index import decode_aborted
from penstock.log.checkpoint import decode_identity, decode_offsets, decode_partition_metadata
from penstock.log.epochs import LeaderEpochs
from penstock.log.errors import CorruptCheckpoint, CorruptIndex, CorruptSnapshot
from penstock.log.offset_index import without_reserve
from penstock.log.producer_snapshot import decode_snapshot
from penstock.log.scan import whole_batches
from penstock.metadata.records import UnreadableMetadata, decode_record
from penstock.metadata.redaction import redacted
from penstock.model.error import PenstockError
from penstock.model.identity import METADATA_TOPIC, id_text
from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.records.control import control_type
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of
from penstock.records.layout import MAGIC_V2
from penstock.records.record import Record
from penstock.world.ports import Disk

Row = tuple[object, ...]

BATCH_COLUMNS = (
    "position", "base offset", "last offset", "records", "bytes", "magic", "codec", "max timestamp",
    "epoch", "producer", "producer epoch", "sequence", "kind", "checksum",
)  # fmt: skip
RECORD_COLUMNS = ("offset", "timestamp", "key", "value", "headers")
_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qi")
SHOWN_BYTES_MAX = 200
METADATA_SNAPSHOT = ".checkpoint"


class UnknownFile(PenstockError):
    """A name that no file of a log has."""


@dataclass(slots=True)
class Dump:
    kind: str
    columns: tuple[str, ...]
    rows: Iterator[Row] = field(default_factory=lambda: iter(()))
    error: str | None = None


def dump_file(disk: Disk, path: str, *, records: bool = False) -> Dump:
    """The rows of a file; UnknownFile when its name says nothing."""
    name = os.path.basename(path)
    segment = layout.parse_segment_file(name)
    if segment is not None:
        base_offset, suffix = segment
        if suffix == layout.LOG:
            directory = os.path.basename(os.path.dirname(os.path.abspath(path)))
            is_metadata = directory.startswith(METADATA_TOPIC)
            return _guarded(_batches(disk, path, records=records, is_metadata=is_metadata))
        return _guarded(_INDEXES[suffix](base_offset, disk.read(path)))
    if name in _CHECKPOINTS:
        return _guarded(_CHECKPOINTS[name](path, disk.read(path)))
    if name.endswith(METADATA_SNAPSHOT):
        return _guarded(_batches(disk, path, records=records, is_metadata=True))
    suffixes = (*layout.SEGMENT_SUFFIXES, layout.SNAPSHOT, METADATA_SNAPSHOT)
    known = ", ".join((*suffixes, *_CHECKPOINTS))
    raise UnknownFile(f"{name}: no file of a log has this name; known are {known}")


def _guarded(dump: Dump) -> Dump:
    """The same dump, which ends where the file makes no sense."""
    rows = dump.rows

    def until_error() -> Iterator[Row]:
        try:
            yield from rows
        except (CorruptBatch, CorruptIndex, CorruptSnapshot, CorruptCheckpoint) as error:
            dump.error = str(error)

    dump.rows = until_error()
    return dump


def _batches(disk: Disk, path: str, *, records: bool, is_metadata: bool) -> Dump:
    dump = Dump("record batches", RECORD_COLUMNS if records else BATCH_COLUMNS)

    def rows() -> Iterator[Row]:
        file = disk.open(path, writable=False)
        try:
            for position, batch in whole_batches(file, start=0, end=file.size):
                matches = batch.checksum_matches()
                if not matches and dump.error is None:
                    dump.error = f"wrong checksum of the batch at byte {position}"
                if not records:
                    yield _batch_row(position, batch, matches)
                elif matches:
                    for record in records_of(batch):
                        yield _record_row(record, batch, is_metadata=is_metadata)
        finally:
            file.close()

    dump.rows = rows()
    return dump


def _batch_row(position: int, batch: BatchView, matches: bool) -> Row:
    kinds = (("control", batch.is_control), ("transactional", batch.is_transactional))
    producer = None if batch.producer_id < 0 else batch.producer_id
    return (
        position,
        batch.base_offset,
        batch.last_offset,
        batch.record_count if batch.record_count >= 0 else None,
        batch.size_bytes,
        batch.magic,
        batch.codec.name.lower(),
        batch.max_timestamp,
        batch.leader_epoch if batch.magic == MAGIC_V2 else None,
        producer,
        None if producer is None else batch.producer_epoch,
        None if producer is None else batch.base_sequence,
        " ".join(name for name, is_so in kinds if is_so) or "data",
        "right" if matches else "WRONG",
    )


def _record_row(record: Record, batch: BatchView, *, is_metadata: bool) -> Row:
    key, value = _shown(record.key), _shown(record.value)
    if batch.is_control:
        kind = control_type(record)
        key = "unknown" if kind is None else kind.name.lower()
    elif is_metadata and record.value is not None:
        # One of a newer version is shown as its bytes.
        with suppress(UnreadableMetadata):
            value = repr(redacted(decode_record(record.value)))
    headers = ", ".join(f"{name}={_shown(content)}" for name, content in record.headers)
    return (record.offset, record.timestamp_ms, key, value, headers)


def _shown(content: bytes | None) -> str | None:
    if content is None:
        return None
    decoded = bytes(content[:SHOWN_BYTES_MAX]).decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in decoded)
    return text + (f"... ({len(content)} bytes)" if len(content) > SHOWN_BYTES_MAX else "")


def _offset_index(base_offset: Offset, data: bytes) -> Dump:
    def rows() -> Iterator[Row]:
        before = (-1, -1)
        for relative, position in _OFFSET_ENTRY.iter_unpack(
            without_reserve(data, _OFFSET_ENTRY.size)
        ):
            if relative <= before[0] or position <= before[1]:
                raise CorruptIndex(f"the entry of offset {base_offset + relative} does not grow")
            before = (relative, position)
            yield base_offset + relative, position

    return Dump("offset index", ("offset", "position"), rows())


def _time_index(base_offset: Offset, data: bytes) -> Dump:
    def rows() -> Iterator[Row]:
        before = -1
        for timestamp_ms, relative in _TIME_ENTRY.iter_unpack(
            without_reserve(data, _TIME_ENTRY.size)
        ):
            if timestamp_ms < before:
                raise CorruptIndex(f"the entry of timestamp {timestamp_ms} does not grow")
            before = timestamp_ms
            yield timestamp_ms, base_offset + relative

    return Dump("time index", ("timestamp", "offset"), rows())


def _aborted_index(base_offset: Offset, data: bytes) -> Dump:
    columns = ("producer", "first offset", "last offset", "last stable offset")

    def rows() -> Iterator[Row]:
        for one in decode_aborted(data, base_offset=base_offset):
            yield one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset

    return Dump("aborted transactions", columns, rows())


def _snapshot(base_offset: Offset, data: bytes) -> Dump:
    columns = (
        "producer", "epoch", "last sequence", "last offset", "offset delta", "timestamp",
        "coordinator epoch", "transaction since",
    )  # fmt: skip

    def rows() -> Iterator[Row]:
        for producer in decode_snapshot(data).values():
            last = producer.batches[-1] if producer.batches else None
            yield (
                producer.producer_id,
                producer.epoch,
                None if last is None else last.last_sequence,
                None if last is None else last.last_offset,
                None if last is None else last.offset_delta,
                producer.last_timestamp_ms,
                producer.coordinator_epoch,
                producer.current_txn_first_offset,
            )

    return Dump("producers", columns, rows())


def _offsets(path: str, data: bytes) -> Dump:
    def rows() -> Iterator[Row]:
        for partition, offset in decode_offsets(path, data).items():
            yield partition.topic, partition.partition, offset

    return Dump("offsets by partition", ("topic", "partition", "offset"), rows())


def _epochs(path: str, data: bytes) -> Dump:
    def rows() -> Iterator[Row]:
        for entry in LeaderEpochs.decode(path, data).entries:
            yield entry.epoch, entry.start_offset

    return Dump("leader epochs", ("epoch", "start offset"), rows())


def _topic_id(path: str, data: bytes) -> Dump:
    def rows() -> Iterator[Row]:
        yield (id_text(decode_partition_metadata(path, data)),)

    return Dump("partition metadata", ("topic id",), rows())


def _identity(path: str, data: bytes) -> Dump:
    def rows() -> Iterator[Row]:
        identity = decode_identity(path, data)
        yield identity.cluster_id, identity.node_id, id_text(identity.directory_id)

    return Dump("directory identity", ("cluster id", "node id", "directory id"), rows())


_INDEXES: dict[str, Callable[[Offset, bytes], Dump]] = {
    layout.OFFSET_INDEX: _offset_index,
    layout.TIME_INDEX: _time_index,
    layout.ABORTED_INDEX: _aborted_index,
    layout.SNAPSHOT: _snapshot,
}
_CHECKPOINTS: dict[str, Callable[[str, bytes], Dump]] = {
    layout.RECOVERY_POINTS: _offsets,
    layout.START_OFFSETS: _offsets,
    layout.LEADER_EPOCHS: _epochs,
    layout.PARTITION_METADATA: _topic_id,
    layout.IDENTITY: _identity,
}
