"""One partition as a follower holds it: what it asks of its leader, and what it makes of replies.

    position()           what to fetch: the end of the log, and the epoch of its last record
    take(asked, data)    what the reply does: append a run, cut off what the leader does not have,
                         move the high watermark and the start of the log

A follower appends what the leader has numbered, byte for byte. Where the two logs differ, the
leader answers with the largest epoch, not above that of the follower's last record, and where it
ends there. The follower cuts its log to the smaller of that end and its own end of that epoch, and
asks again: after some rounds the logs agree (KIP-101, KIP-279).

Invariants:
 1. Records and divergence in a reply count only if the follower would still ask as it asked then:
    same leader epoch, same end of the log.
 2. The high watermark is not above the leader's, nor above the end of the log.
 3. Where acks wait for a sync, no offset is named that is not synced.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from penstock.log.partition_log import PartitionLog
from penstock.log.truncation import Cut
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.offset import NO_LEADER_EPOCH, LeaderEpoch, Offset
from penstock.model.settings.topic import TopicSettings
from penstock.replication.replica import Replica
from penstock.wire.messages.fetch import EpochEndOffset, PartitionData
from penstock.wire.replica_fetch import FetchedPartition

EMPTY: Final = b""


class Position:
    """What a follower asks for; the fields are those of the fetch request. It does not change.

    Built per partition of a reply: see `log/reading` on its `__init__`.
    """

    __slots__ = ("fetch_offset", "last_fetched_epoch", "leader_epoch", "log_start_offset")

    def __init__(
        self,
        *,
        fetch_offset: Offset,
        last_fetched_epoch: LeaderEpoch,
        leader_epoch: LeaderEpoch,
        log_start_offset: Offset,
    ) -> None:
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch  # NO_LEADER_EPOCH: of an empty log
        self.leader_epoch = leader_epoch
        self.log_start_offset = log_start_offset

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Position)
            and self.fetch_offset == other.fetch_offset
            and self.last_fetched_epoch == other.last_fetched_epoch
            and self.leader_epoch == other.leader_epoch
            and self.log_start_offset == other.log_start_offset
        )

    def __hash__(self) -> int:
        return hash((self.fetch_offset, self.leader_epoch))


class Taken(Enum):
    """What a reply has done."""

    APPENDED = "appended"
    UNCHANGED = "unchanged"  # no records; the high watermark or the start may have moved
    TRUNCATED = "truncated"  # ask again at once
    CUTTING = "cutting"  # a long truncation is being prepared: `cut_further`
    STALE = "stale"  # the reply to another leader epoch or position: nothing has changed
    OUT_OF_RANGE = "out_of_range"  # ask the leader where its log begins and ends: `restart_at`
    REFUSED = "refused"  # ask again after a while; the code is in `Follower.error`


class Follower(Replica):
    """The follower's side of one partition."""

    __slots__ = ("_cut", "_leader_start", "cut_below_watermark", "error", "leader")

    def __init__(
        self,
        log: PartitionLog,
        *,
        leader: NodeId | None,
        leader_epoch: LeaderEpoch,
        partition_epoch: int = 0,
        high_watermark: Offset | None = None,
        uncommitted_ends: Iterable[tuple[Offset, Offset]] | None = None,
    ) -> None:
        super().__init__(
            log,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            high_watermark=high_watermark,
            uncommitted_ends=uncommitted_ends,
        )
        self.leader = leader
        self.error = ErrorCode.NONE  # of the last reply
        self._leader_start = log.start_offset  # as of the last reply
        # The high watermark before records below it were cut off: an unclean election.
        self.cut_below_watermark: Offset | None = None
        self._cut: Cut | None = None  # a truncation that is being prepared
        # An epoch in which this replica led and wrote nothing is unknown to other leaders.
        log.truncate_to(log.end_offset)
        self._vouch(log.end_offset)

    def position(self) -> Position | None:
        """What to ask of the leader; None without a leader, or while a sync or a truncation must
        come first.
        """
        if self.leader is None or self.has_ended or self.wants_sync or self._cut is not None:
            return None
        log = self.log
        return Position(
            fetch_offset=log.end_offset,
            last_fetched_epoch=self._last_epoch(),
            leader_epoch=self.leader_epoch,
            log_start_offset=log.start_offset,
        )

    @property
    def start_behind(self) -> Offset | None:
        """Where the log is to begin by the last reply; None: where it does."""
        start_offset = min(self._leader_start, self.high_watermark)
        return start_offset if start_offset > self.log.start_offset else None

    @property
    def is_cutting(self) -> bool:
        """Whether a truncation is being prepared: `cut_further` until it is done."""
        return self._cut is not None

    def take(
        self,
        asked: Position,
        data: PartitionData | FetchedPartition,
        *,
        now_ms: int,
        moves_start: bool = True,
        in_steps: bool = False,
    ) -> Taken:
        """Does what the leader's reply asks for. Without `moves_start`, the start of the log is
        left to the caller: `start_behind` says where it belongs. So is a long truncation with
        `in_steps`: `cut_further`.

        CorruptRun: a batch from the leader is damaged. DiskError: the log is as it was.
        """
        log = self.log
        if (
            self.has_ended
            or self._cut is not None
            or asked.leader_epoch != self.leader_epoch
            or asked.fetch_offset != log.end_offset
            or asked.last_fetched_epoch != self._last_epoch()
        ):
            self._note_late(asked, data)
            return Taken.STALE
        if isinstance(data, FetchedPartition):
            self.error = ErrorCode.NONE
            return self._take_records(
                data.records,
                high_watermark=Offset(data.high_watermark),
                leader_start=Offset(data.start_offset),
                now_ms=now_ms,
                moves_start=moves_start,
            )
        self.error = _error_of(data.error_code)
        if self.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return Taken.OUT_OF_RANGE
        if self.error is not ErrorCode.NONE:
            return Taken.REFUSED
        diverging = data.diverging_epoch
        if diverging is not None:
            if diverging.epoch < 0 or diverging.end_offset < 0:
                self.error = ErrorCode.UNKNOWN_SERVER_ERROR  # nothing can be concluded from it
                return Taken.REFUSED
            offset = self._agreed_offset(diverging)
            if offset >= log.end_offset and log.epochs.epoch_below(offset) == self._last_epoch():
                # Nothing is to be cut: to ask again at once would go on for ever.
                self.error = ErrorCode.UNKNOWN_SERVER_ERROR
                return Taken.REFUSED
            return self._cut_to(offset, in_steps=in_steps)
        records = EMPTY if data.records is None else data.records
        assert isinstance(records, bytes | bytearray | memoryview), "as it was received"
        return self._take_records(
            memoryview(records),
            high_watermark=Offset(data.high_watermark),
            leader_start=Offset(data.log_start_offset),
            now_ms=now_ms,
            moves_start=moves_start,
        )

    def cut_further(self) -> Taken:
        """The next step of a truncation: CUTTING until it is done, or STALE if it is no longer due.

        CorruptLog, DiskError: it is given up, and the log as it was.
        """
        cut = self._cut
        if cut is None or self.has_ended:
            return Taken.STALE
        self._cut = None
        if not cut.step():
            self._cut = cut
            return Taken.CUTTING
        self._truncate(cut.offset, cut)
        return Taken.TRUNCATED

    def restart_at(
        self,
        *,
        leader_epoch: LeaderEpoch,
        leader_start: Offset,
        leader_end: Offset,
        in_steps: bool = False,
    ) -> bool:
        """The offset that was asked for is not in the leader's log, which is [start, end) now, or
        the epoch of our last record is unknown to it. No record has a later epoch than its leader:
        what claims one is damaged, and fetched again.

        False when the answer is of another leader epoch: nothing has changed. `in_steps` as above.
        """
        if self.has_ended or leader_epoch != self.leader_epoch:
            return False
        if leader_end < self.log.start_offset:
            # What is deleted here may have been written anew there, at offsets below its end.
            self._begin_anew(leader_start)
        elif leader_end < self.log.end_offset:
            self._cut_to(leader_end, in_steps=in_steps)
        elif leader_start > self.log.end_offset:
            self._begin_anew(leader_start)
        elif self._last_epoch() > self.leader_epoch:
            self._cut_to(self.log.epochs.entries[-1].start_offset, in_steps=in_steps)
        return True

    def change_leader(
        self, *, leader: NodeId | None, leader_epoch: LeaderEpoch, partition_epoch: int
    ) -> None:
        """The metadata tell who leads; older partition epochs are ignored."""
        if leader_epoch < self.leader_epoch or partition_epoch < self.partition_epoch:
            return
        self.partition_epoch = partition_epoch
        self.leader = leader
        if leader_epoch != self.leader_epoch:
            self.leader_epoch = leader_epoch
            self._cut = None  # the new leader may have what was to be cut off
            self._notify_end()

    def reconfigure(self, settings: TopicSettings) -> None:
        super().reconfigure(settings)
        self._vouch(self.log.end_offset)

    def synced(self) -> None:
        self._vouch(self.log.end_offset)

    def _vouched_at_first(self) -> Offset:
        """Invariant 3. The high watermark proves nothing: while a follower catches up, it is where
        the log ends.
        """
        return min(self.high_watermark, self.log.recovery_point)

    def _last_epoch(self) -> LeaderEpoch:
        latest = self.log.epochs.latest
        return NO_LEADER_EPOCH if latest is None else latest

    def _take_records(
        self,
        records: memoryview,
        *,
        high_watermark: Offset,
        leader_start: Offset,
        now_ms: int,
        moves_start: bool,
    ) -> Taken:
        log = self.log
        if self.high_watermark < log.end_offset == leader_start <= high_watermark:
            # The leader has nothing to compare our records with: not all are known as committed.
            self._begin_anew(leader_start)
        appended = len(records) > 0 and self._append(records, now_ms=now_ms)
        self._advance(high_watermark)
        self._leader_start = leader_start
        if moves_start and (start_offset := self.start_behind) is not None:
            self.advance_start(start_offset)
        return Taken.APPENDED if appended else Taken.UNCHANGED

    def _note_late(self, asked: Position, data: PartitionData | FetchedPartition) -> None:
        """A second request left before the reply to the first was here, and both replies have the
        same records. What else the second one says is not said again: the leader takes it to be
        known. It holds: since it was asked, the log has grown by what this leader sent.
        """
        log = self.log
        if (
            self.has_ended
            or self._cut is not None
            or asked.leader_epoch != self.leader_epoch
            or asked.fetch_offset >= log.end_offset
        ):
            return
        if isinstance(data, FetchedPartition):
            high_watermark, leader_start = data.high_watermark, data.start_offset
        elif data.error_code == ErrorCode.NONE and data.diverging_epoch is None:
            high_watermark, leader_start = data.high_watermark, data.log_start_offset
        else:
            return
        self._advance(Offset(high_watermark))
        self._leader_start = max(self._leader_start, Offset(leader_start))

    def _append(self, records: memoryview, *, now_ms: int) -> bool:
        """Whether a batch was appended: the first one may be incomplete."""
        log = self.log
        size_bytes, end_offset = log.size_bytes, log.end_offset
        try:
            log.append_run(records, leader_epoch=self.leader_epoch, now_ms=now_ms)
        finally:
            # A full disk may have taken a part of it.
            if log.end_offset > end_offset:
                self._transactions_changed()
                self._vouch(log.end_offset)
                added_bytes = max(0, log.size_bytes - size_bytes)
                self._hidden_bytes += added_bytes
                self.traffic.replication_bytes_in += added_bytes
        return log.end_offset > end_offset

    def _agreed_offset(self, leaders: EpochEndOffset) -> Offset:
        """Up to where the logs can agree, by the leader's end of an epoch that we may not have."""
        log = self.log
        leader_end = Offset(leaders.end_offset)
        # It may be below the start: then even the last deleted record is another one there.
        own = log.epochs.end_of(LeaderEpoch(leaders.epoch), end_offset=log.end_offset)
        if own is None:
            return min(leader_end, log.end_offset)
        if own.leader_epoch != leaders.epoch:
            return own.end_offset  # in rounds: the leader is asked about this earlier epoch
        return min(leader_end, own.end_offset)

    def _cut_to(self, offset: Offset, *, in_steps: bool) -> Taken:
        cut = self.log.prepare_cut(offset)
        if in_steps and not cut.step():
            self._cut = cut
            return Taken.CUTTING
        self._truncate(offset, cut)
        return Taken.TRUNCATED

    def _begin_anew(self, offset: Offset) -> None:
        """Nothing that is here can be compared with the leader's log, which begins at `offset`."""
        self.cut_below_watermark = self.high_watermark if offset < self.high_watermark else None
        self.log.truncate_fully_and_start_at(offset)
        self._log_was_cut()
        self.high_watermark = offset

    def _truncate(self, offset: Offset, cut: Cut) -> None:
        self.cut_below_watermark = self.high_watermark if offset < self.high_watermark else None
        self.log.truncate_to(offset, cut=cut)
        self._log_was_cut()

    def _advance(self, leaders: Offset) -> None:
        log = self.log
        reached = min(leaders, log.end_offset)
        if reached <= self.high_watermark:
            return
        self.high_watermark = reached
        # As in a leader: too many bytes make an observer look once too often.
        byte_count = self._hidden_bytes
        if reached == log.end_offset:
            self._hidden_bytes = 0
        while self._uncommitted_ends and self._uncommitted_ends[0][0] <= reached:
            self._uncommitted_ends.popleft()
            byte_count = log.size_bytes
        self.changes += 1
        for observer in tuple(self.observers):
            observer.advanced(self, byte_count)


def _error_of(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
