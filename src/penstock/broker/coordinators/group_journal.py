"""A partition of `__consumer_offsets` as a journal: a decision in is one batch.

Nobody else writes to the partition, so a host that has followed its log knows all of it.
"""

from collections.abc import Callable, Sequence

from penstock.groups.records import GroupRecord, encode
from penstock.machine.held import NotDone
from penstock.machine.host import AppendFailed
from penstock.model.limit import DECISION_BYTES_MAX
from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Record
from penstock.replication.partition import Partition
from penstock.world.ports import Clock
from penstock.world.trouble import DiskError

AppendTrouble = Callable[[Partition, DiskError], None]
WantSync = Callable[[Partition], None]


class GroupJournal:
    """Appends in the leader's epoch of the moment."""

    def __init__(
        self,
        partition: Partition,
        *,
        clock: Clock,
        codec: Codec,
        append_failed: AppendTrouble,
        want_sync: WantSync,
    ) -> None:
        self._partition = partition
        self._clock = clock
        self._codec = codec
        self._append_failed = append_failed
        self._want_sync = want_sync

    @property
    def end_offset(self) -> Offset:
        return self._partition.log.end_offset

    def append(self, records: Sequence[GroupRecord]) -> None:
        partition = self._partition
        refusal = partition.refuse_all_acks()
        if partition.has_ended or refusal is not None:
            raise AppendFailed(f"{partition.name} takes no records: {refusal}")
        now_ms = self._clock.now_ms()
        batch = build_batch(
            [Record(*encode(record), timestamp_ms=now_ms) for record in records],
            base_offset=self.end_offset,
            leader_epoch=partition.leader_epoch,
            codec=self._codec,
        )
        if len(batch) > DECISION_BYTES_MAX:
            raise AppendFailed(f"{len(batch)} bytes in one batch", NotDone.TOO_LARGE)
        try:
            partition.append_numbered((BatchView(memoryview(batch)),), now_ms=now_ms)
        except DiskError as trouble:
            self._append_failed(partition, trouble)
            raise AppendFailed(str(trouble)) from trouble
        if partition.wants_sync:
            self._want_sync(partition)
