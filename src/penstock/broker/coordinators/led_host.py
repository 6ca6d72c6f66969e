"""One state machine that this broker runs on a partition that it leads, from election to the end.

An election of the same leader, in another leader epoch, is an end too: another broker may have led
in between, and markers carry the epoch of their coordinator. A new host follows the journal again.

It tells the host how far the partition is committed, takes decisions one at a time, and keeps the
time of the machine's deadlines. What is asked and answered is its owner's: a shard of groups or of
transactions.
"""

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar, assert_never

from penstock.broker.coordinators.partition_journal import PartitionJournal
from penstock.machine.deadlines import Deadlines
from penstock.machine.decision import Decision
from penstock.machine.held_replies import Answer, NotDone
from penstock.machine.host import Host
from penstock.model.error import ErrorCode, RequestError
from penstock.model.offset import Offset
from penstock.replication.partition import Partition
from penstock.replication.replica import Replica

RETRY_MS = 1000  # what was due and could not be journalled is tried again after so long

JournalRecord = TypeVar("JournalRecord")
Given = TypeVar("Given", contravariant=True)


class Stage(Enum):
    LOADING = auto()
    LOADED = auto()
    UNREADABLE = auto()  # the journal is damaged: nothing is served from it
    ENDED = auto()


class TimedMachine(Protocol[Given]):
    """A state whose deadlines are kept by the host's owner."""

    def apply(self, record: Given) -> None: ...

    def apply_volatile(self, change: object) -> None: ...

    @property
    def deadlines(self) -> Deadlines[Any]: ...

    def check(self) -> None: ...


class LedHost(Generic[JournalRecord]):
    """See the module; an Observer of its partition.

    `carry_out` and `overdue` are those of the host. `has_opened` is called once, when decisions are
    taken; `has_ended` when they are no more.
    """

    def __init__(
        self,
        partition: Partition,
        journal: PartitionJournal[JournalRecord],
        machine: TimedMachine[JournalRecord],
        *,
        carry_out: Callable[[object], None],
        has_ended: Callable[[], None],
        overdue: Callable[[object], None] | None = None,
        has_opened: Callable[[], None] | None = None,
    ) -> None:
        self.partition = partition
        self.stage = Stage.LOADING
        self._machine = machine
        self._host: Host[JournalRecord, object] = Host(
            journal=journal,
            machine=machine,
            watermark=partition.log.start_offset,
            carry_out=carry_out,
            overdue=overdue,
        )
        self._has_ended = has_ended
        self._has_opened = has_opened
        self._submitting = False
        self._retry_ms: int | None = None
        partition.observers[self] = None

    @property
    def serves(self) -> bool:
        return self.stage is Stage.LOADED and self._host.is_open

    def next_ms(self) -> int | None:
        """When `keep_time` has something to do."""
        if self.stage is not Stage.LOADED:
            return None
        due_ms = self._machine.deadlines.next_ms()
        if due_ms is not None and self._retry_ms is not None:
            due_ms = max(due_ms, self._retry_ms)
        waits = (due_ms, self._host.next_deadline_ms())
        return min((at_ms for at_ms in waits if at_ms is not None), default=None)

    def replay(
        self, records: Iterable[JournalRecord], *, next_offset: Offset | None = None
    ) -> None:
        """Follows records of the journal; the last call says where they end."""
        if next_offset is None:
            next_offset = self._host.applied_offset
        self._host.replay(records, next_offset=next_offset)

    def opened(self) -> None:
        """The journal has been followed to its end."""
        self._host.opened()
        self.stage = Stage.LOADED
        self.catch_up()

    def submit(
        self,
        decide: Callable[[], Decision[JournalRecord, object]],
        *,
        deadline_ms: int,
        answer: Answer[object],
    ) -> None:
        """The partition may tell of its progress while it appends; the host hears of it after it
        has applied what was appended.
        """
        assert not self._submitting
        self._submitting = True
        try:
            self._host.submit(decide, deadline_ms=deadline_ms, answer=answer)
        finally:
            self._submitting = False
        self.catch_up()

    def keep_time(
        self,
        decide_due: Callable[[], Decision[JournalRecord, object] | None],
        *,
        now_ms: int,
        deadline_ms: int,
    ) -> bool:
        """Does one thing whose time has come; False when there is none, for now."""
        self._host.expire(now_ms)
        if self._is_put_off(now_ms):
            return False
        self._retry_ms = None
        deadlines = self._machine.deadlines
        due = deadlines.due(now_ms)
        if due is None:
            return False
        if not self.serves:
            self._retry_ms = now_ms + RETRY_MS  # the watermark has still to catch up
            return False

        def decide_one() -> Decision[JournalRecord, object]:
            decided = decide_due()
            assert decided is not None
            return decided

        def answer(reply: object) -> None:
            if reply is NotDone.TOO_LARGE:
                deadlines.set(due, now_ms + RETRY_MS)  # alone: what is due behind it may fit
            elif isinstance(reply, NotDone) and reply is not NotDone.TIMED_OUT:
                self._retry_ms = now_ms + RETRY_MS

        self.submit(decide_one, deadline_ms=deadline_ms, answer=answer)
        return not self._is_put_off(now_ms)

    def end(self, stage: Stage = Stage.ENDED) -> None:
        """Nothing is decided here any more; whoever waits is told."""
        if self.stage in (Stage.ENDED, Stage.UNREADABLE):
            return
        self.stage = stage
        self.partition.observers.pop(self, None)
        self._host.lose_leadership()
        self._has_ended()

    def check(self) -> None:
        if self.stage is Stage.LOADED:
            self._host.check()
            self._machine.check()

    def advanced(self, partition: Replica, byte_count: int) -> None:
        if not self._submitting:
            self.catch_up()

    def ended(self, partition: Replica) -> None:
        if not self._submitting:
            self.end()

    def catch_up(self) -> None:
        """Tells the host how far its journal is committed."""
        if self.partition.has_ended:
            self.end()
        elif self.stage is Stage.LOADED:
            committed = min(self.partition.high_watermark, self._host.applied_offset)
            if committed > self._host.watermark:
                self._host.advance(committed)
            if self._has_opened is not None and self._host.is_open:
                has_opened, self._has_opened = self._has_opened, None
                has_opened()

    def _is_put_off(self, now_ms: int) -> bool:
        # Asked, not looked up: compiled code takes what was set to None in a function for None.
        return self._retry_ms is not None and now_ms < self._retry_ms


def refusal(outcome: NotDone) -> RequestError:
    return RequestError(error_code(outcome), outcome.value)


def error_code(outcome: NotDone) -> ErrorCode:
    """How clients of a coordinator are told: all but one of these are for another try."""
    match outcome:
        case NotDone.APPEND_FAILED | NotDone.TIMED_OUT | NotDone.FULL:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case NotDone.TOO_LARGE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case NotDone.LEADERSHIP_LOST:
            return ErrorCode.NOT_COORDINATOR
        case NotDone.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case _:
            assert_never(outcome)
