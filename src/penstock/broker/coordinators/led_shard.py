"""One shard of groups that this broker leads.

It keeps the requests whose answers have not come: those that the host holds until the watermark
passes, and those that a decision has parked until others have joined or time is up.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from penstock.broker.coordinators.group_log import Rebalances, Watched, decided_due, watched
from penstock.broker.coordinators.led_host import LedHost, error_code, refusal
from penstock.broker.coordinators.partition_journal import PartitionJournal
from penstock.groups.decide import Decided, decide, decide_due
from penstock.groups.decision_context import DecisionContext
from penstock.groups.group import Group, member_count
from penstock.groups.records import GroupRecord
from penstock.groups.requests import Asked, Deliver, NotStored, Parked
from penstock.groups.shard import GroupShard
from penstock.machine.held_replies import NotDone
from penstock.model.offset import Offset
from penstock.replication.partition import Partition

SESSIONS_PER_TURN = 1000  # and groups: some milliseconds
NOT_STORED = (NotDone.APPEND_FAILED, NotDone.TOO_LARGE)


class Ticket:
    """A request whose answer is owed; the future is made when it does not come at once."""

    __slots__ = ("future", "reply")

    def __init__(self) -> None:
        self.reply: object | None = None
        self.future: asyncio.Future[object] | None = None


class LedShard:
    """`has_opened` is called when decisions are taken; it calls `begin_sessions`."""

    def __init__(
        self,
        partition: Partition,
        journal: PartitionJournal[GroupRecord],
        *,
        has_opened: "Callable[[LedShard], None]",
        rebalances: Rebalances | None = None,
    ) -> None:
        self.shard = GroupShard()
        self.host: LedHost[GroupRecord] = LedHost(
            partition,
            journal,
            self.shard,
            carry_out=self._carry_out,
            overdue=self._overdue,
            has_ended=self._notify_end,
            has_opened=lambda: has_opened(self),
        )
        self._rebalances = rebalances
        self._tickets: dict[int, Ticket] = {}
        self._to_begin: deque[Group] = deque()  # groups whose members are to begin their sessions

    def replay(self, records: Iterable[GroupRecord], *, next_offset: Offset | None = None) -> None:
        """Follows records of the journal; the last call says where they end."""
        self.host.replay(records, next_offset=next_offset)

    def loaded(self, context: DecisionContext) -> None:
        """The journal has been followed to its end. Decisions are taken once all of it is
        committed.
        """
        self.host.opened()

    def begin_sessions(self, context: DecisionContext) -> None:
        """From now on members can be heard. Followers may have taken long to come: sessions that
        had begun before would all be over. Those of very many members begin in several turns, each
        with a `keep_time`; until the last one nothing is decided.
        """
        self._to_begin.extend(self.shard.groups.values())
        self._begin_some(context)

    @property
    def is_beginning(self) -> bool:
        """Whether there are sessions to begin, in another turn."""
        return len(self._to_begin) > 0 and self.host.serves

    def ask(
        self, asked: Asked[object], context: DecisionContext, *, deadline_ms: int
    ) -> object | asyncio.Future[object]:
        """The reply, or a future of it. RequestError, now or later, when none was earned."""
        if self.is_beginning:
            raise refusal(NotDone.LOADING)
        ticket = self._tickets[asked.ticket] = Ticket()

        def answer(reply: object) -> None:
            if not isinstance(reply, Parked):
                self._answer(asked.ticket, reply)

        watch = watched(self.shard, asked.request, self._rebalances)
        self.host.submit(
            lambda: decide(self.shard, context, asked), deadline_ms=deadline_ms, answer=answer
        )
        if watch is not None:
            watch.log()
        if ticket.reply is None:
            return self._future(asked.ticket, ticket)
        if not isinstance(ticket.reply, NotDone):
            return ticket.reply
        if ticket.reply in NOT_STORED:
            self._reply_not_stored(asked, ticket.reply, context, deadline_ms=deadline_ms)
        raise refusal(ticket.reply)

    def keep_time(self, context: DecisionContext, *, deadline_ms: int) -> bool:
        """Does one thing whose time has come; False when there is none, for now."""
        if self.is_beginning:
            self._begin_some(context)
            return True
        watch: Watched | None = None

        def due() -> Decided | None:
            nonlocal watch
            decision, watch = decided_due(
                self.shard,
                context.monotonic_ms,
                lambda: decide_due(self.shard, context),
                self._rebalances,
            )
            return decision

        did = self.host.keep_time(due, now_ms=context.monotonic_ms, deadline_ms=deadline_ms)
        if watch is not None:
            watch.log()
        return did

    def _begin_some(self, context: DecisionContext) -> None:
        some: list[Group] = []
        looked_at = 0
        while self._to_begin and looked_at < SESSIONS_PER_TURN:
            group = self._to_begin.popleft()
            looked_at += 1 + member_count(group)
            some.append(group)
        self.shard.loaded(context, some)

    def _reply_not_stored(
        self, asked: Asked[object], why: NotDone, context: DecisionContext, *, deadline_ms: int
    ) -> None:
        """Others may be parked for what this request would have brought."""
        failed = Asked(
            request=NotStored(request=asked.request, code=error_code(why)),
            version=asked.version,
            ticket=asked.ticket,
            client_id=asked.client_id,
            client_host=asked.client_host,
        )
        self.host.submit(
            lambda: decide(self.shard, context, failed),
            deadline_ms=deadline_ms,
            answer=lambda _: None,
        )

    def _notify_end(self) -> None:
        for number in tuple(self._tickets):
            self._answer(number, NotDone.LEADERSHIP_LOST)

    def _carry_out(self, effect: object) -> None:
        assert isinstance(effect, Deliver), effect
        self._answer(effect.ticket, effect.reply)

    def _overdue(self, effect: object) -> None:
        """A parked request waits no longer for the journal than the one that decided about it."""
        assert isinstance(effect, Deliver), effect
        self._answer(effect.ticket, NotDone.TIMED_OUT)

    def _answer(self, number: int, reply: object) -> None:
        ticket = self._tickets.pop(number, None)
        if ticket is None:
            return  # its client has gone, or was answered when the time was up
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
