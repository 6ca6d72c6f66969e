"""One shard of transactions that this broker leads."""

import asyncio
from collections.abc import Callable, Iterator

from penstock.broker.coordinators.fencing_log import Client, watched, watched_due
from penstock.broker.coordinators.led_host import LedHost, refusal
from penstock.broker.coordinators.partition_journal import PartitionJournal
from penstock.machine.decision import Decision
from penstock.machine.held_replies import NotDone
from penstock.model.limit import TRANSACTIONAL_IDS_PER_STEP
from penstock.replication.partition import Partition
from penstock.transactions.decide import (
    TransactionReply,
    TransactionRequest,
    decide,
    decide_due,
    decide_loaded,
)
from penstock.transactions.decision_context import DecisionContext
from penstock.transactions.markers import (
    MarkersWritten,
    SendMarkers,
    StopWriter,
    ToResume,
    to_resume,
)
from penstock.transactions.records import TransactionStored
from penstock.transactions.shard import TransactionShard

NOT_REPORTED = (NotDone.APPEND_FAILED, NotDone.TOO_LARGE, NotDone.FULL, NotDone.LOADING)

Sends = Callable[["LedTransactions", SendMarkers], None]


class LedTransactions:
    """Markers leave through `send`, writers are stopped by `stop`. What a predecessor left to do is
    taken up by `resume`, which comes with `keep_time` at the latest. That of very many ids takes
    several turns, each with a `keep_time`; until the last one nothing else is decided.
    """

    def __init__(
        self,
        partition: Partition,
        journal: PartitionJournal[TransactionStored],
        *,
        send: Sends,
        stop: Callable[[StopWriter], None],
        has_opened: Callable[[], None],
    ) -> None:
        self.shard = TransactionShard(coordinator_epoch=partition.leader_epoch)
        self.host: LedHost[TransactionStored] = LedHost(
            partition,
            journal,
            self.shard,
            carry_out=self._carry_out,
            has_ended=self._notify_end,
            has_opened=has_opened,
        )
        self._send = send
        self._stop = stop
        self._left: Iterator[ToResume] | None = None  # what is to be resumed; None: not begun
        self._has_resumed = False
        self._waiting: dict[asyncio.Future[object], None] = {}

    def loaded(self, context: DecisionContext) -> None:
        """The journal has been followed to its end."""
        self.host.opened()
        self.resume(context, deadline_ms=context.monotonic_ms)

    @property
    def is_resuming(self) -> bool:
        """Whether there is more to resume, in another turn."""
        return self._left is not None and not self._has_resumed and self.host.serves

    def resume(self, context: DecisionContext, *, deadline_ms: int) -> None:
        """Begins as soon as decisions are taken and before any other: deadlines and markers."""
        if self.host.serves and self._left is None:
            self._left = to_resume(self.shard, ids_per_step=TRANSACTIONAL_IDS_PER_STEP)
            self._resume_some(context, deadline_ms=deadline_ms)

    def ask(
        self,
        request: TransactionRequest,
        context: DecisionContext,
        *,
        version: int,
        deadline_ms: int,
        client: Client | None = None,
    ) -> object | asyncio.Future[object]:
        """The reply, or a future of it. RequestError, now or later, when none was earned. `client`
        is who asked, for the log.
        """
        self.resume(context, deadline_ms=deadline_ms)
        if self.is_resuming:
            raise refusal(NotDone.LOADING)
        answers: list[object] = []
        waiting: asyncio.Future[object] | None = None
        watch = watched(self.shard, request, client)

        def decided() -> Decision[TransactionStored, TransactionReply]:
            decision = decide(self.shard, context, request, version=version)
            if watch is not None:
                watch.reply = decision.reply
            return decision

        def answer(reply: object) -> None:
            if waiting is None:
                answers.append(reply)
            elif waiting.done():
                return  # its client has gone
            elif isinstance(reply, NotDone):
                waiting.set_exception(refusal(reply))
            else:
                waiting.set_result(reply)

        self.host.submit(decided, deadline_ms=deadline_ms, answer=answer)
        if watch is not None:
            watch.log()
        if not answers:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting[waiting] = None
            waiting.add_done_callback(self._waiting.pop)
            return waiting
        [reply] = answers
        if isinstance(reply, NotDone):
            raise refusal(reply)
        return reply

    def report(
        self, written: MarkersWritten, context: DecisionContext, *, deadline_ms: int
    ) -> bool:
        """Whether the report was taken, or nobody needs it any more."""
        if self.is_resuming:
            return False
        refused: list[NotDone] = []

        def answer(reply: object) -> None:
            if isinstance(reply, NotDone) and reply in NOT_REPORTED:
                refused.append(reply)

        self.host.submit(
            lambda: decide(self.shard, context, written),
            deadline_ms=deadline_ms,
            answer=answer,
        )
        return not refused

    def keep_time(self, context: DecisionContext, *, deadline_ms: int) -> bool:
        """Does one thing whose time has come; False when there is none, for now."""
        if self.is_resuming:
            self._resume_some(context, deadline_ms=deadline_ms)
        else:
            self.resume(context, deadline_ms=deadline_ms)
        if self.is_resuming:
            return True
        watch = watched_due(self.shard, context.monotonic_ms)
        did = self.host.keep_time(
            lambda: decide_due(self.shard, context),
            now_ms=context.monotonic_ms,
            deadline_ms=deadline_ms,
        )
        if watch is not None:
            watch.log()
        return did

    def _resume_some(self, context: DecisionContext, *, deadline_ms: int) -> None:
        assert self._left is not None
        some = next(self._left)
        self.host.submit(
            lambda: decide_loaded(self.shard, context, some),
            deadline_ms=deadline_ms,
            answer=lambda _: None,  # nothing is held yet that it would have to wait for
        )
        self._has_resumed = some.is_last

    def _carry_out(self, effect: object) -> None:
        if isinstance(effect, StopWriter):
            self._stop(effect)
        else:
            assert isinstance(effect, SendMarkers), effect
            self._send(self, effect)

    def _notify_end(self) -> None:
        assert all(waiting.done() for waiting in self._waiting), "the host has told them"
