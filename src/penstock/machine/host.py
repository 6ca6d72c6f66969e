"""Runs a state machine on a journal: decide, append, apply, hold until committed.

Controller, group coordinator and transaction coordinator are all run by this host; they differ in
state, records and journal. It is synchronous: `submit` runs to its end without a pause, so memory
and journal cannot disagree, and replies leave through callbacks when `advance` moves the watermark.

Invariants:
1. What was applied is exactly what is in the journal: `applied_offset == journal.end_offset`.
2. watermark <= applied_offset.
3. No reply leaves before the watermark passed every record that its decision wrote or saw.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from penstock.machine.decision import Decision
from penstock.machine.held_replies import Answer, Held, HeldReplies, NotDone
from penstock.model.error import PenstockError
from penstock.model.limit import HELD_REPLIES_MAX
from penstock.model.offset import Offset

Record = TypeVar("Record")
RecordIn = TypeVar("RecordIn", contravariant=True)
Reply = TypeVar("Reply")


class AppendFailed(PenstockError):
    """A journal could not take the records, and holds none of them."""

    def __init__(self, message: str, why: NotDone = NotDone.APPEND_FAILED) -> None:
        super().__init__(message)
        self.why = why


class Journal(Protocol[RecordIn]):
    """The log that a host writes to; `Host.advance` reports its watermark."""

    @property
    def end_offset(self) -> Offset: ...

    def append(self, records: Sequence[RecordIn]) -> None:
        """Appends the records of one decision in one step: one batch, one offset per record; or
        several batches with a frame around them. AppendFailed: nothing was changed.
        """


class Machine(Protocol[RecordIn]):
    """The state. Applying a record never fails and needs nothing else."""

    def apply(self, record: RecordIn) -> None: ...

    def apply_volatile(self, change: object) -> None: ...


class Host(Generic[Record, Reply]):
    """One state machine on its journal, from election to loss of leadership.

    `carry_out` is called for each effect of a decision that is committed. `overdue` is called
    before that, for each effect of a decision that is not committed by its deadline: an effect that
    answers somebody else's request does so with an error then. It may still be carried out later.
    """

    def __init__(
        self,
        *,
        journal: Journal[Record],
        machine: Machine[Record],
        watermark: Offset,
        carry_out: Callable[[object], None],
        overdue: Callable[[object], None] | None = None,
    ) -> None:
        self._journal = journal
        self._machine = machine
        self._carry_out = carry_out
        self._overdue = overdue
        self._held: HeldReplies[Reply] = HeldReplies()
        self._watermark = watermark
        self._applied_offset = watermark
        self._open_offset: Offset | None = None
        self._leading = True

    @property
    def applied_offset(self) -> Offset:
        return self._applied_offset

    @property
    def watermark(self) -> Offset:
        return self._watermark

    @property
    def is_open(self) -> bool:
        """Whether decisions are made: everything journalled before the election is committed."""
        return self._open_offset is not None and self._watermark >= self._open_offset

    def next_deadline_ms(self) -> int | None:
        return self._held.next_deadline_ms()

    def replay(self, records: Iterable[Record], *, next_offset: Offset) -> None:
        """Applies records that are in the journal already; `next_offset` comes after them."""
        assert self._open_offset is None, "replay ends with `opened`"
        assert next_offset >= self._applied_offset
        for record in records:
            self._machine.apply(record)
        self._applied_offset = next_offset

    def opened(self) -> None:
        """The journal has been replayed to its end as of the election."""
        assert self._open_offset is None
        assert self._applied_offset == self._journal.end_offset
        self._open_offset = self._applied_offset

    def passed(self, next_offset: Offset) -> None:
        """The journal has grown by what means nothing to the machine: records of the quorum."""
        assert self._open_offset is not None, "before that, they are replayed"
        assert next_offset == self._journal.end_offset > self._applied_offset
        self._applied_offset = next_offset

    def submit(
        self,
        decide: Callable[[], Decision[Record, Reply]],
        *,
        deadline_ms: int,
        answer: Answer[Reply],
    ) -> None:
        """Decides now; `answer` is called exactly once, at once or later."""
        if not self._leading:
            return answer(NotDone.LEADERSHIP_LOST)
        if not self.is_open:
            return answer(NotDone.LOADING)
        if len(self._held) >= HELD_REPLIES_MAX:
            return answer(NotDone.FULL)
        decision = decide()
        if decision.records:
            try:
                self._journal.append(decision.records)
            except AppendFailed as error:
                return answer(error.why)
        self._apply(decision)
        if self._applied_offset <= self._watermark:
            answer(decision.reply)
            return self._carry_out_all(decision.effects)
        held = Held(
            until_offset=self._applied_offset,
            deadline_ms=deadline_ms,
            reply=decision.reply,
            effects=decision.effects,
            answer=answer,
        )
        return self._held.hold(held)

    def advance(self, watermark: Offset) -> None:
        """The journal is committed up to here: the replies that waited for it are released, in
        order.
        """
        assert self._watermark <= watermark <= self._applied_offset
        self._watermark = watermark
        for held in self._held.release(watermark):
            if held.answer is not None:
                held.answer(held.reply)
            self._carry_out_all(held.effects)

    def expire(self, now_ms: int) -> None:
        """Answers replies whose deadline has passed with an error; the state stays as it is."""
        for expired in self._held.expire(now_ms):
            expired.answer(NotDone.TIMED_OUT)
            if self._overdue is not None:
                for effect in expired.effects:
                    self._overdue(effect)

    def lose_leadership(self) -> None:
        """Fails all held replies; nothing is decided here again, and the state is to be dropped."""
        self._leading = False
        for answer in self._held.fail():
            answer(NotDone.LEADERSHIP_LOST)

    def check(self) -> None:
        if self._open_offset is not None and self._leading:
            assert self._applied_offset == self._journal.end_offset  # invariant 1
        assert self._watermark <= self._applied_offset  # invariant 2
        self._held.check(self._watermark)  # invariant 3

    def _apply(self, decision: Decision[Record, Reply]) -> None:
        for record in decision.records:
            self._machine.apply(record)
        for change in decision.volatile:
            self._machine.apply_volatile(change)
        before, self._applied_offset = self._applied_offset, self._journal.end_offset
        written = self._applied_offset - before
        # A frame has offsets of its own beside those of its records.
        assert written == len(decision.records) or decision.framed  # invariant 1
        assert written >= len(decision.records)

    def _carry_out_all(self, effects: Iterable[object]) -> None:
        for effect in effects:
            self._carry_out(effect)
