"""One shard that this broker leads, from election to loss of leadership.

It runs the shard's host on the partition, tells it how far the partition is committed, and keeps
the requests whose answers have not come: those that the host holds until the watermark passes, and
those that a decision has parked until others have joined or time is up.
"""

import asyncio
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import assert_never

from penstock.broker.coordinators.group_journal import GroupJournal
from penstock.groups.asking import Asked, Deliver, NotStored, Parked
from penstock.groups.decide import decide, decide_due
from penstock.groups.records import GroupRecord
from penstock.groups.shard import GroupShard
from penstock.groups.situation import Situation
from penstock.machine.decision import Decision
from penstock.machine.held import Answer, NotDone
from penstock.machine.host import Host
from penstock.model.error import ErrorCode, RequestError
from penstock.model.offset import Offset
from penstock.replication.partition import Partition

RETRY_MS = 1000  # what was due and could not be journalled is tried again after so long
NOT_STORED = (NotDone.APPEND_FAILED, NotDone.TOO_LARGE)


class Stage(Enum):
    LOADING = auto()
    LOADED = auto()
    UNREADABLE = auto()  # the journal is damaged: nothing is served from it
    ENDED = auto()


class Ticket:
    """A request whose answer is owed; the future is made when it does not come at once."""

    __slots__ = ("future", "reply")

    def __init__(self) -> None:
        self.reply: object | None = None
        self.future: asyncio.Future[object] | None = None


class LedShard:
    """See the module; an Observer of its partition."""

    def __init__(self, partition: Partition, journal: GroupJournal) -> None:
        self.partition = partition
        self.shard = GroupShard()
        self.stage = Stage.LOADING
        self._host: Host[GroupRecord, object] = Host(
            journal=journal,
            machine=self.shard,
            watermark=partition.log.start_offset,
            carry_out=self._carry_out,
        )
        self._tickets: dict[int, Ticket] = {}
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
        due_ms = self.shard.deadlines.next_ms()
        if due_ms is not None and self._retry_ms is not None:
            due_ms = max(due_ms, self._retry_ms)
        waits = (due_ms, self._host.next_deadline_ms())
        return min((at_ms for at_ms in waits if at_ms is not None), default=None)

    def replay(self, records: Iterable[GroupRecord], *, next_offset: Offset | None = None) -> None:
        """Follows records of the journal; the last call says where they end."""
        if next_offset is None:
            next_offset = self._host.applied_offset
        self._host.replay(records, next_offset=next_offset)

    def loaded(self, situation: Situation) -> None:
        """The journal has been followed to its end."""
        self._host.opened()
        self.stage = Stage.LOADED
        self.shard.loaded(situation)
        self._catch_up()

    def ask(
        self, asked: Asked[object], situation: Situation, *, deadline_ms: int
    ) -> object | asyncio.Future[object]:
        """The reply, or a future of it. RequestError, now or later, when none was earned."""
        ticket = self._tickets[asked.ticket] = Ticket()

        def answer(reply: object) -> None:
            if not isinstance(reply, Parked):
                self._answer(asked.ticket, reply)

        self._submit(
            lambda: decide(self.shard, situation, asked), deadline_ms=deadline_ms, answer=answer
        )
        if ticket.reply is None:
            return self._future(asked.ticket, ticket)
        if not isinstance(ticket.reply, NotDone):
            return ticket.reply
        if ticket.reply in NOT_STORED:
            self._tell_not_stored(asked, ticket.reply, situation, deadline_ms=deadline_ms)
        raise refusal(ticket.reply)

    def keep_time(self, situation: Situation, *, deadline_ms: int) -> bool:
        """Does one thing whose time has come; False when there is none, for now."""
        now_ms = situation.monotonic_ms
        self._host.expire(now_ms)
        if self._retry_ms is not None and now_ms < self._retry_ms:
            return False
        self._retry_ms = None
        if not self.serves or self.shard.deadlines.due(now_ms) is None:
            return False

        def decide_one() -> Decision[GroupRecord, object]:
            decided = decide_due(self.shard, situation)
            assert decided is not None
            return decided

        def answer(reply: object) -> None:
            if isinstance(reply, NotDone) and reply is not NotDone.TIMED_OUT:
                self._retry_ms = now_ms + RETRY_MS

        self._submit(decide_one, deadline_ms=deadline_ms, answer=answer)
        return self._retry_ms is None

    def end(self, stage: Stage = Stage.ENDED) -> None:
        """Nothing is decided here any more; whoever waits is told."""
        if self.stage in (Stage.ENDED, Stage.UNREADABLE):
            return
        self.stage = stage
        self.partition.observers.pop(self, None)
        self._host.lose_leadership()
        for number in tuple(self._tickets):
            self._answer(number, NotDone.LEADERSHIP_LOST)

    def check(self) -> None:
        if self.stage is Stage.LOADED:
            self._host.check()
            self.shard.check()

    def advanced(self, partition: Partition, byte_count: int) -> None:
        if not self._submitting:
            self._catch_up()

    def ended(self, partition: Partition) -> None:
        if not partition.has_ended:
            partition.observers[self] = None  # we lead it still, under another epoch
        elif not self._submitting:
            self.end()

    def _submit(
        self,
        decide: Callable[[], Decision[GroupRecord, object]],
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
        self._catch_up()

    def _catch_up(self) -> None:
        if self.partition.has_ended:
            self.end()
        elif self.stage is Stage.LOADED:
            committed = min(self.partition.high_watermark, self._host.applied_offset)
            if committed > self._host.watermark:
                self._host.advance(committed)

    def _tell_not_stored(
        self, asked: Asked[object], why: NotDone, situation: Situation, *, deadline_ms: int
    ) -> None:
        """Others may be parked for what this request would have brought."""
        failed = Asked(
            request=NotStored(request=asked.request, code=error_code(why)),
            version=asked.version,
            ticket=asked.ticket,
            client_id=asked.client_id,
            client_host=asked.client_host,
        )
        self._submit(
            lambda: decide(self.shard, situation, failed),
            deadline_ms=deadline_ms,
            answer=lambda _: None,
        )

    def _carry_out(self, effect: object) -> None:
        assert isinstance(effect, Deliver), effect
        self._answer(effect.ticket, effect.reply)

    def _answer(self, number: int, reply: object) -> None:
        ticket = self._tickets.pop(number, None)
        if ticket is None:
            return  # its client has gone
        ticket.reply = reply
        if ticket.future is None or ticket.future.done():
            return
        if isinstance(reply, NotDone):
            ticket.future.set_exception(refusal(reply))
        else:
            ticket.future.set_result(reply)

    def _future(self, number: int, ticket: Ticket) -> asyncio.Future[object]:
        """When it is cancelled, because the client has gone, the answer is owed no more."""
        ticket.future = asyncio.get_running_loop().create_future()
        ticket.future.add_done_callback(lambda _: self._tickets.pop(number, None))
        return ticket.future


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
