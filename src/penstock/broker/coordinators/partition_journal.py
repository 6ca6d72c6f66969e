"""A partition of an internal topic as a journal: a decision in is one batch.

Nobody else writes to the partition, so a host that has followed its log knows all of it. What a
record looks like is the coordinator's to say: it hands in how its records become a batch.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from penstock.machine.held_replies import NotDone
from penstock.machine.host import AppendFailed
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import DECISION_BYTES_MAX
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.batch import BatchView
from penstock.replication.partition import Partition
from penstock.world.errors import DiskError
from penstock.world.ports import Clock

AppendError = Callable[[Partition, DiskError], None]
WantSync = Callable[[Partition], None]


JournalRecord = TypeVar("JournalRecord")
Given = TypeVar("Given", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where and when a batch is written."""

    base_offset: Offset
    leader_epoch: LeaderEpoch
    now_ms: int


class BuildBatch(Protocol[Given]):
    """One batch of all the records, one offset each."""

    def __call__(self, records: Sequence[Given], place: Place) -> bytearray: ...


class PartitionJournal(Generic[JournalRecord]):
    """Appends in the leader's epoch of the moment."""

    def __init__(
        self,
        partition: Partition,
        build: BuildBatch[JournalRecord],
        *,
        clock: Clock,
        append_failed: AppendError,
        want_sync: WantSync,
    ) -> None:
        self._partition = partition
        self._build = build
        self._clock = clock
        self._append_failed = append_failed
        self._want_sync = want_sync

    @property
    def end_offset(self) -> Offset:
        return self._partition.log.end_offset

    def append(self, records: Sequence[JournalRecord]) -> None:
        partition = self._partition
        refusal = partition.refuse_all_acks()
        if partition.has_ended or refusal is not None:
            raise AppendFailed(f"{partition.name} takes no records: {refusal}")
        now_ms = self._clock.now_ms()
        place = Place(
            base_offset=self.end_offset, leader_epoch=partition.leader_epoch, now_ms=now_ms
        )
        batch = self._build(records, place)
        if len(batch) > DECISION_BYTES_MAX:
            raise AppendFailed(f"{len(batch)} bytes in one batch", NotDone.TOO_LARGE)
        try:
            partition.append_numbered((BatchView(memoryview(batch)),), now_ms=now_ms)
        except DiskError as error:
            self._append_failed(partition, error)
            raise AppendFailed(str(error)) from error
        if partition.wants_sync:
            self._want_sync(partition)
