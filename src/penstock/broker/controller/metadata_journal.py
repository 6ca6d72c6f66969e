"""The metadata log as a journal: decisions in, one batch or frame each; the history out at a start.

At each start the one voter elects itself: a leader-change batch of a new epoch goes in before
anything else, as Apache Kafka's quorum does it, and the first start of all writes the bootstrap
records behind it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.log.partition_log import PartitionLog
from penstock.machine.held_replies import NotDone
from penstock.machine.host import AppendFailed
from penstock.metadata.framing import batched
from penstock.metadata.records import (
    LogRecord,
    MetadataRecord,
    UnreadableMetadata,
    decode_record,
    encode_record,
)
from penstock.model.identity import NodeId
from penstock.model.limit import DECISION_BYTES_MAX
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.control import ControlType, control_batch
from penstock.records.iterate import records_of
from penstock.records.record import Record
from penstock.wire.codec import encode
from penstock.wire.messages.control_records import LeaderChangeMessage, Voter
from penstock.wire.messages.metadata_records.transaction import AbortTransactionRecord
from penstock.world.errors import DiskError
from penstock.world.ports import Clock, File

LEADER_CHANGE_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one batch of the log says, or one whole decision."""

    records: tuple[LogRecord, ...]
    next_offset: Offset
    epoch: LeaderEpoch


class MetadataJournal:
    """`__cluster_metadata-0`, in the epoch that `elect` began."""

    def __init__(self, *, log: PartitionLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._epoch = LeaderEpoch(0)
        self._appended: list[Entry] = []

    @property
    def start_offset(self) -> Offset:
        return self._log.start_offset

    @property
    def end_offset(self) -> Offset:
        return self._log.end_offset

    def history(self) -> Iterator[Entry]:
        """Everything in the log, in order. UnreadableMetadata for what is not as we wrote it.

        Checksums are looked at even after a clean stop: the log is small, and what it says decides
        over everything else.
        """
        for batch in self._log.batches_from(self._log.start_offset):
            if not batch.checksum_matches():
                raise UnreadableMetadata(
                    f"{self._log.directory}: the batch at offset {batch.base_offset} does not "
                    f"match its checksum; restore the directory from a copy"
                )
            values = () if batch.is_control else records_of(batch)
            yield Entry(
                records=tuple(decode_record(bytes(record.value or b"")) for record in values),
                next_offset=batch.next_offset,
                epoch=batch.leader_epoch,
            )

    def elect(self, leader: NodeId) -> None:
        """Begins an epoch in which this node leads; the caller syncs."""
        latest = self._log.epochs.latest
        self._epoch = LeaderEpoch(1 if latest is None else latest + 1)
        message = LeaderChangeMessage(
            version=LEADER_CHANGE_VERSION,
            leader_id=leader,
            voters=[Voter(voter_id=leader)],
            granting_voters=[Voter(voter_id=leader)],
        )
        batch = control_batch(
            ControlType.LEADER_CHANGE,
            encode(message, LEADER_CHANGE_VERSION),
            timestamp_ms=self._clock.now_ms(),
            base_offset=self._log.end_offset,
            leader_epoch=self._epoch,
        )
        self._write([batch], ())

    def append(self, records: Sequence[MetadataRecord]) -> None:
        """One decision, in the page cache; `unsynced` and `synced` make it durable."""
        batches = []
        base_offset = self._log.end_offset
        for values in batched(records):
            batches.append(self._batch(values, base_offset))
            base_offset = Offset(base_offset + len(values))
            if len(batches[-1]) > DECISION_BYTES_MAX:
                raise AppendFailed(f"{len(batches[-1])} bytes in one batch", NotDone.TOO_LARGE)
        try:
            self._write(batches, tuple(records))
        except DiskError as error:
            raise AppendFailed(str(error)) from error

    def abort_frame(self) -> None:
        """Ends a frame that a crash left open: nothing of it takes effect. The caller syncs."""
        record = AbortTransactionRecord(reason="the controller stopped before it was complete")
        self._write([self._batch([encode_record(record)], self._log.end_offset)], (record,))

    def unsynced(self) -> list[File]:
        return self._log.unsynced_files()

    def synced(self, end_offset: Offset) -> list[Entry]:
        """Notes that all up to `end_offset` is durable; returns what thereby became visible."""
        self._log.mark_synced(end_offset)
        visible = [entry for entry in self._appended if entry.next_offset <= end_offset]
        self._appended = self._appended[len(visible) :]
        return visible

    def sync(self) -> list[Entry]:
        """The same at once, on this thread: for a start."""
        self._log.sync()
        return self.synced(self._log.end_offset)

    def _batch(self, values: Sequence[bytes], base_offset: Offset) -> bytearray:
        now_ms = self._clock.now_ms()
        return build_batch(
            [Record(None, value, timestamp_ms=now_ms) for value in values],
            base_offset=base_offset,
            leader_epoch=self._epoch,
        )

    def _write(self, batches: Sequence[bytearray], records: tuple[LogRecord, ...]) -> None:
        views = [BatchView(memoryview(batch)) for batch in batches]
        self._log.append(views, now_ms=self._clock.now_ms())
        self._appended.append(
            Entry(records=records, next_offset=self._log.end_offset, epoch=self._epoch)
        )
