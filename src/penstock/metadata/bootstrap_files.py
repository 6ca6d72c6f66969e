"""The files with which a new cluster begins. Formatting writes them, in the format of snapshots.

    bootstrap.checkpoint                                             every cluster
    __cluster_metadata-0/00000000000000000000-0000000000.checkpoint  kraft.version 1

    batch    of bootstrap.checkpoint         of the snapshot at offset 0
    first    SnapshotHeader                  SnapshotHeader, KRaftVersion, Voters
    second   the records that the first      -
             controller appends to the log
    last     SnapshotFooter                  SnapshotFooter

The first and the last are control batches. Offsets count from 0, the epoch is 0. Apache Kafka's
`kafka-dump-log` reads both.
"""

from collections.abc import Iterable, Sequence

from penstock.metadata.controller.brokers import bootstrap_records
from penstock.metadata.records import MetadataRecord, encode_record
from penstock.metadata.voter_records import voter_records
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.listener import DirectoryVoter
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.control import ControlType, control_batch, control_record
from penstock.records.record import Record
from penstock.wire.codec import encode
from penstock.wire.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord

BOOTSTRAP_FILE = "bootstrap.checkpoint"
VOTERS_FILE = f"{0:020d}-{0:010d}.checkpoint"

EPOCH = LeaderEpoch(0)
VERSION = 0  # of header and footer


def first_records(
    *, min_insync_replicas: str | None, users: Iterable[MetadataRecord] = ()
) -> tuple[MetadataRecord, ...]:
    """The records of a new cluster: its features, the default of `min.insync.replicas` as the
    settings give it, since it counts only where all nodes know it, and its first users.
    """
    if min_insync_replicas is None:
        return (*bootstrap_records(), *users)
    return (*bootstrap_records(min_insync_replicas=min_insync_replicas), *users)


def bootstrap_checkpoint(records: Iterable[MetadataRecord], *, now_ms: int) -> bytes:
    """`bootstrap.checkpoint` with these records."""
    header = _control((_header(0, now_ms),), base_offset=Offset(0))
    data = build_batch(
        [Record(None, encode_record(record), timestamp_ms=now_ms) for record in records],
        base_offset=_next_offset(header),
        leader_epoch=EPOCH,
    )
    return bytes(header + data + _footer(now_ms, base_offset=_next_offset(data)))


def voters_checkpoint(voters: Sequence[DirectoryVoter], *, listener: str, now_ms: int) -> bytes:
    """The snapshot at offset 0 that makes these the voters, reached over the listener's name."""
    records = voter_records(voters, listener=listener, timestamp_ms=now_ms)
    first = _control((_header(now_ms, now_ms), *records), base_offset=Offset(0))
    return bytes(first + _footer(now_ms, base_offset=_next_offset(first)))


def _header(last_contained_ms: int, now_ms: int) -> Record:
    header = SnapshotHeaderRecord(version=VERSION, last_contained_log_timestamp=last_contained_ms)
    return control_record(ControlType.SNAPSHOT_HEADER, encode(header, VERSION), timestamp_ms=now_ms)


def _control(records: Sequence[Record], *, base_offset: Offset) -> bytearray:
    return build_batch(records, base_offset=base_offset, leader_epoch=EPOCH, control=True)


def _footer(now_ms: int, *, base_offset: Offset) -> bytearray:
    return control_batch(
        ControlType.SNAPSHOT_FOOTER,
        encode(SnapshotFooterRecord(version=VERSION), VERSION),
        timestamp_ms=now_ms,
        base_offset=base_offset,
        leader_epoch=EPOCH,
    )


def _next_offset(batch: bytearray) -> Offset:
    return BatchView(memoryview(batch)).next_offset
