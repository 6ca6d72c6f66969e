"""One partition as its leader holds it: what producers and coordinators append to it.

`append` is a whole produce in one step: check, plan, number, write, make visible. Nothing in it
waits, so no other request and no change of leadership can come between the check and the append.
The high watermark, which makes visible, the followers and the acks that wait are the part of it
that `replication/led_replica` holds.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from penstock.log.partition_log import PartitionLog
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView, whole_batch
from penstock.records.control import EndTransaction, end_transaction_batch
from penstock.records.errors import CorruptBatch, InvalidBatch
from penstock.records.layout import CONTROL_FLAG, NO_TIMESTAMP, TRANSACTIONAL_FLAG, TimestampType
from penstock.records.scratch import Scratch
from penstock.records.validate import check_produced
from penstock.replication.guard import Guard, Guards, in_transaction
from penstock.replication.leader import Duplicate, Refusal, plan_append
from penstock.replication.led_replica import NO_NODE, LedReplica
from penstock.replication.marker import EPOCH_PER_TRANSACTION, Marker, refuse_marker
from penstock.replication.refused_sequences import RefusedSequences
from penstock.replication.rules import rules_of
from penstock.world.errors import DiskError

LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME
# A batch with one of these moves stable offsets.
READERS_WAIT: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG


@dataclass(slots=True, kw_only=True, init=False)
class Appended:
    """The outcome of an append, for the reply. Built per batch: see `log/reading` on its
    `__init__`.
    """

    base_offset: Offset  # NO_OFFSET for a duplicate that is known by its sequence alone
    end_offset: Offset  # the ack of all replicas waits for the high watermark to reach it
    log_append_time_ms: int  # NO_TIMESTAMP where the producer's own timestamps count
    is_duplicate: bool  # it was appended before, and is sent again

    def __init__(
        self,
        *,
        base_offset: Offset,
        end_offset: Offset,
        log_append_time_ms: int,
        is_duplicate: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.log_append_time_ms = log_append_time_ms
        self.is_duplicate = is_duplicate


class Partition(LedReplica):
    """The leader's side of one partition."""

    __slots__ = (
        "_refused",
        "_rules",
        "_scratch",
        "_unstable_bytes",
        "guards",
    )

    def __init__(
        self,
        log: PartitionLog,
        *,
        leader_epoch: LeaderEpoch,
        partition_epoch: int = 0,
        node_id: NodeId = NO_NODE,
        replicas: Iterable[NodeId] = (),
        replica_count: int | None = None,
        in_sync: Iterable[NodeId] = (),
        recovering: bool = False,
        high_watermark: Offset | None = None,
        uncommitted_ends: Iterable[tuple[Offset, Offset]] | None = None,
        scratch: Scratch | None = None,
        now_ms: int = 0,
    ) -> None:
        """`scratch`: memory for decompressing, which partitions share. The rest is as in
        `LedReplica`.
        """
        super().__init__(
            log,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            node_id=node_id,
            replicas=replicas,
            replica_count=replica_count,
            in_sync=in_sync,
            recovering=recovering,
            high_watermark=high_watermark,
            uncommitted_ends=uncommitted_ends,
            now_ms=now_ms,
        )
        self.guards = Guards()  # of producers whose transactions are being verified
        self._refused = RefusedSequences()
        # At least what stands behind an open transaction: a marker shows it to waiting readers.
        self._unstable_bytes = 0 if self._first_unstable_offset is None else log.size_bytes
        self._scratch = scratch
        self._rules = rules_of(log.settings, scratch=scratch)

    def may_continue(self, producer_id: ProducerId, *, epoch: int) -> bool:
        """Whether a batch of the producer's open transaction can be appended at once: nothing that
        came before it is still being verified.
        """
        return self.in_transaction(producer_id, epoch=epoch) and not self.guards.is_held(
            producer_id
        )

    def in_transaction(self, producer_id: ProducerId, *, epoch: int) -> bool:
        """Whether the producer's transaction is open in this partition."""
        return self.guards.found_open(producer_id) and in_transaction(
            self.log.producers.by_id.get(producer_id), epoch=epoch
        )

    def require_transaction(self, producer_id: ProducerId, *, epoch: int, guard: Guard) -> None:
        """RequestError when a coordinator must not write for the producer's transaction."""
        producer = self.log.producers.by_id.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise RequestError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if self.guards.holds(producer_id, guard):
            self.guards.note_open(producer_id)
        elif not self.in_transaction(producer_id, epoch=epoch):
            raise RequestError(ErrorCode.INVALID_TXN_STATE)

    def append(
        self,
        data: memoryview,
        *,
        all_acks: bool,
        zstd_allowed: bool = True,
        now_ms: int,
        guard: Guard | None = None,
    ) -> Appended | Refusal:
        """Appends the one batch of a produce request, writing its offset into `data`. Records of a
        transaction come with the guard under which it was verified; where it is open, any guard
        will do.

        Raises InvalidBatch for a mistake of its sender, and DiskError, after which nothing has
        changed.
        """
        assert not self.has_ended, self.name
        if all_acks and (refusal := self.refuse_all_acks()) is not None:
            self.note_refused(data, refusal.code, now_ms=now_ms)
            return refusal
        log = self.log
        rules = self._rules
        rules.now_ms = now_ms
        rules.zstd_allowed = zstd_allowed
        try:
            batch = check_produced(data, rules)
        except InvalidBatch as error:
            if self._refused.by_producer:
                self.note_refused(data, error.code, now_ms=now_ms)
            raise
        base_offset = log.end_offset
        refused = self._refused
        plan = plan_append(
            batch,
            end_offset=base_offset,
            leader_epoch=self.leader_epoch,
            producers=log.producers.by_id,
            verified=guard is not None and self._may_write(guard, batch),
            first_sequence=None if guard is None else guard.first_sequence,
            earlier_code=(
                refused.code_of_earlier(batch, now_ms=now_ms) if refused.by_producer else None
            ),
        )
        if isinstance(plan, Refusal):
            if refused.by_producer:
                refused.note(batch, plan.code, now_ms=now_ms)
            if plan.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self.traffic.out_of_order_batches += 1
            elif plan.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                self.traffic.fenced_batches += 1
            return plan
        if isinstance(plan, Duplicate):
            refused.note_in_log(batch)
            self.traffic.duplicate_batches += 1
            return Appended(
                base_offset=plan.base_offset,
                end_offset=Offset(plan.last_offset + 1),
                log_append_time_ms=plan.timestamp_ms,
                is_duplicate=True,
            )
        batch.assign(base_offset=plan.base_offset, leader_epoch=plan.leader_epoch)
        try:
            self.append_numbered((batch,), now_ms=now_ms)
        except DiskError:
            refused.note(batch, ErrorCode.KAFKA_STORAGE_ERROR, now_ms=now_ms)
            raise
        if refused.by_producer:
            refused.note_in_log(batch)
        if guard is not None:
            self.guards.note_open(batch.producer_id)
        if not all_acks:
            self.traffic.early_acked_batches += 1
        end_offset = log.end_offset
        assert end_offset == batch.next_offset, (end_offset, batch.next_offset)
        by_our_clock = rules.timestamp_type is LOG_APPEND_TIME
        return Appended(
            base_offset=base_offset,
            end_offset=end_offset,
            log_append_time_ms=batch.max_timestamp if by_our_clock else NO_TIMESTAMP,
        )

    def note_refused(self, data: memoryview, code: ErrorCode, *, now_ms: int) -> None:
        """A batch was refused before it was checked: later batches of its producer must not be
        appended before it.
        """
        try:
            batch = whole_batch(data)
        except CorruptBatch:
            return
        if batch is not None and batch.checksum_matches():
            self._refused.note(batch, code, now_ms=now_ms)

    def end_transaction(self, marker: Marker, *, now_ms: int) -> Offset | Refusal:
        """Writes the marker of a coordinator; returns the offset up to which it must be committed.

        DiskError: nothing has changed.
        """
        assert not self.has_ended, self.name
        producer = self.log.producers.by_id.get(marker.producer_id)
        refusal = self.refuse_all_acks() or refuse_marker(marker, producer)
        if refusal is not None:
            return refusal
        batch = end_transaction_batch(
            EndTransaction(committed=marker.committed, coordinator_epoch=marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=now_ms,
            base_offset=self.log.end_offset,
            leader_epoch=self.leader_epoch,
        )
        self.append_numbered((BatchView(memoryview(batch)),), now_ms=now_ms)
        if marker.transaction_version < EPOCH_PER_TRANSACTION:
            self.guards.clear(marker.producer_id)
        return self.log.end_offset

    def append_numbered(self, batches: Sequence[BatchView], *, now_ms: int) -> None:
        """Appends batches that have their offsets already; makes visible what may be visible."""
        log = self.log
        log.append(batches, now_ms=now_ms)
        traffic = self.traffic
        for batch in batches:
            self._hidden_bytes += batch.size_bytes
            traffic.messages_in += batch.record_count
            traffic.bytes_in += batch.size_bytes
            if batch.attributes & READERS_WAIT:
                self._transactions_changed()
                if batch.is_control:
                    self.guards.end(batch.producer_id, epoch=batch.producer_epoch)
                    self._refused.transaction_ended(batch)
                    self._hidden_bytes += self._unstable_bytes
            is_stable = self._first_unstable_offset is None
            self._unstable_bytes = 0 if is_stable else self._unstable_bytes + batch.size_bytes
        if not self._advance():
            # Followers read beyond the high watermark.
            self.changes += 1
            for observer in tuple(self.observers):
                observer.advanced(self, 0)

    def reconfigure(self, settings: TopicSettings) -> None:
        # Before the others: what they release may append again.
        self._rules = rules_of(settings, scratch=self._scratch)
        super().reconfigure(settings)

    def end(self, *, offline: bool = False) -> None:
        self._refused.clear()
        super().end(offline=offline)

    def _may_write(self, guard: Guard, batch: BatchView) -> bool:
        id_, epoch = batch.producer_id, batch.producer_epoch
        return self.guards.holds(id_, guard) or self.in_transaction(id_, epoch=epoch)

    def _notify_end(self) -> None:
        self.guards.clear_all()
        super()._notify_end()
