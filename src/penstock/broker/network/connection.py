"""One client's connection: requests in, replies out in the order the requests came.

The connection's own task reads, hands each frame to dispatch, and sends what is ready, so a
request whose answer needs no wait costs no task and shares one send with its neighbours. An answer
that must wait takes its place in the line of replies first, and what is finished behind it stays
there until it is. It gets a task, unless it is a `PendingReply`, which whoever completes it fills:
all that are filled in one turn of the loop share one send. Start reading at `Connection.serve`.

Bounds: beyond REQUESTS_IN_FLIGHT_MAX requests, UNSENT_REPLY_BYTES_MAX bytes of replies or
UNANSWERED_BYTES_MAX bytes of requests that wait, the peer is not read until it has taken replies.
Memory for a large request is asked of a budget shared by all connections; when all together hold
too many replies, the one that holds most is given up. Otherwise a read is always pending, so that a
peer that has gone is noticed and what waits on its behalf is cancelled; that of a connection which
is not read is noticed once nothing has moved for the time that it may idle.

Copies: a request is read where it was received; a reply is sent from where it was encoded, and
record batches from the page cache, unless they are few: then they are copied into the reply, which
takes one call and reaches its reader in one piece. Many small ones are copied too, and sent
whenever SMALL_COPIED_BYTES_MAX are at hand, so that no more is read than the peer takes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from penstock.broker.network.budget import Budget
from penstock.broker.network.dispatch import Dispatch, api_key_of
from penstock.broker.network.identity import ConnectionIdentity
from penstock.broker.network.send_buffer import UnsentReplies
from penstock.broker.request.pending_reply import Parts, PendingReply
from penstock.broker.request.request_stats import ApiCount, TimedRequest
from penstock.model import limit
from penstock.model.error import CloseConnection
from penstock.wire.api import ApiKey
from penstock.wire.errors import MalformedMessage
from penstock.wire.framing import FrameReader
from penstock.world.errors import DiskError, NetworkError, send_error
from penstock.world.ports import Buffer, Clock, FileRange, Stream
from penstock.world.tasks import TaskGroup

if TYPE_CHECKING:  # nothing of it is loaded by a node that exports no traces
    from penstock.broker.request.request_tracing import RequestTracing

logger = logging.getLogger(__name__)

PRODUCE: Final = int(ApiKey.PRODUCE)
IN_FLIGHT_MAX: Final = limit.REQUESTS_IN_FLIGHT_MAX
UNSENT_BYTES_MAX: Final = limit.UNSENT_REPLY_BYTES_MAX
UNANSWERED_BYTES_MAX: Final = limit.UNANSWERED_BYTES_MAX
RECEIVE_BUFFER_BYTES: Final = limit.RECEIVE_BUFFER_BYTES
TURN_MS_MAX: Final = limit.TURN_MS_MAX
# Of files, in all that is sent together: more is sent from the page cache, but for small ranges.
COPIED_BYTES_MAX: Final = 128 * limit.KIB
SMALL_RANGE_BYTES: Final = 8 * limit.KIB
# Of small ranges: then what was copied is sent before more is.
SMALL_COPIED_BYTES_MAX: Final = 1 * limit.MIB


class Connection:
    """See the module. Invariants:

    1. `_line` is empty or its first reply is not ready: what is ready at the front is in `_ready`.
    2. At most one task sends.
    3. `unsent_bytes` counts the bytes in memory of all replies that are ready and not sent.
    """

    def __init__(
        self,
        stream: Stream,
        dispatch: Dispatch,
        *,
        budget: Budget,
        unsent: UnsentReplies,
        clock: Clock,
        request_bytes_max: int,
    ) -> None:
        self.stream = stream
        self.identity = ConnectionIdentity()
        self.active_ms = clock.monotonic_ms()
        self._dispatch = dispatch
        self._stats = dispatch.stats
        self._received_us = 0  # when the requests at hand came; kept where they are counted
        self._timed_ready: list[TimedRequest] = []  # those of `_ready` whose times are taken
        self._clock = clock
        self._budget = budget
        self._unsent = unsent
        self._frames = FrameReader(frame_bytes_max=request_bytes_max)
        self._buffer_bytes_idle = self._frames.buffer_bytes
        self.bytes_held = 0  # of the budget
        # When the request that holds them began, or outgrew what it held; 0: none is under way.
        self._outgrown_ms = 0
        self._bytes_since_request = 0
        self._line: deque[PendingReply] = deque()
        self._ready: Parts = []
        self.in_flight = 0  # requests taken whose replies have not been sent
        self._in_ready = 0  # how many of them have their replies in `_ready`
        self._ready_bytes = 0  # of memory
        self._unanswered = 0  # how many of them still wait for an answer of ours
        self._unanswered_bytes = 0  # of the requests that they are
        self.unsent_bytes = 0
        self._task: asyncio.Task[Any] | None = None
        self._waiting: TaskGroup | None = None
        self._sending = False
        self._wake_at_hand = False  # `_send_filled` is called in this turn of the loop
        self._room: asyncio.Future[None] | None = None
        self._finishing = False
        self._has_ended = False

    def is_idle_since(self, moment_ms: int) -> bool:
        """Whether nothing has moved since then, and nothing of ours keeps the peer waiting.

        One that is full is not read, so nobody would notice that its peer has gone. If not one of
        so many requests was answered all the time, a peer that is still there has given up, too.
        """
        return self.active_ms <= moment_ms and (self._unanswered == 0 or self._is_full())

    def is_stalled_since(self, moment_ms: int) -> bool:
        """Whether a request that holds memory of the budget has not come on since then."""
        return self.bytes_held > 0 and 0 < self._outgrown_ms <= moment_ms

    async def serve(self, waiting: TaskGroup) -> None:
        """Until the peer closes, breaks the protocol, or is closed; raises what ended it.

        `waiting` takes the tasks of answers that must wait. See `broker/network/conversation`.
        """
        self._task = asyncio.current_task()
        self._waiting = waiting
        broken: CloseConnection | MalformedMessage | None = None
        try:
            while await self._receive():
                await self._answer_received()
        except (CloseConnection, MalformedMessage) as error:
            broken = error
        if broken is not None:
            await self._flush()  # what was asked before in good order is still answered
            raise broken

    def ended(self) -> None:
        """Gives back what the connection held, whatever ended it."""
        self._has_ended = True
        for reply in self._line:
            reply.abandon()
        if self._stats is not None and self._stats.tracing is not None:
            self._end_traces()
        self.stream.close()
        self._hold_less(0)
        self._unsent.forget(self)

    def finish(self) -> None:
        """Takes no more requests, and closes when the last reply under way has been sent."""
        self._finishing = True
        if self.in_flight == 0:
            self.close()

    def give_up(self, reason: str) -> None:
        """Closes at once, for a reason that is told."""
        self.log_closed(reason)
        self.close()

    def log_closed(self, reason: str) -> None:
        logger.warning(
            "connection closed peer=%s listener=%s reason=%s",
            self.stream.peer, self._dispatch.listener, reason,
        )  # fmt: skip

    def close(self) -> None:
        """At once."""
        if self._task is not None:
            self._task.cancel()
        else:
            self.stream.close()

    def check(self) -> None:
        assert not self._line or self._line[0].parts is None  # invariant 1
        ready = [reply.parts for reply in self._line if reply.parts is not None]
        unsent = size_in_memory(self._ready) + sum(map(size_in_memory, ready))
        # What the network took of a reply that is not sent whole is still counted.
        assert self._sending or self.unsent_bytes >= unsent  # invariant 3

    async def _receive(self) -> bool:
        """Some bytes more; False when the peer has closed."""
        frames = self._frames
        if self.bytes_held:
            if self._budget.is_tight:
                frames.shrink()
            if self._outgrown_ms == 0 and not frames.is_idle:
                self._outgrown_ms = self._clock.monotonic_ms()
        needed = frames.buffer_bytes_next - self._buffer_bytes_idle
        if needed > self.bytes_held:
            self._outgrown_ms = 0  # what it waits for now is not for its peer to give
            await self._budget.take(self, needed - self.bytes_held)
            self.bytes_held = needed
            self._outgrown_ms = self._clock.monotonic_ms()
        elif needed < self.bytes_held:
            self._hold_less(needed)
        view = frames.receive_view()
        count = await self.stream.receive_into(view)
        frames.received(count)
        self._bytes_since_request += count
        return count > 0

    async def _answer_received(self) -> None:
        if self._stats is None:
            received_ms = self._clock.monotonic_ms()
        else:
            self._received_us = self._clock.monotonic_us()
            received_ms = self._received_us // 1000
        turn_ends_ms = received_ms + TURN_MS_MAX
        frames = self._frames
        while (frame := frames.next_frame()) is not None:
            if self._finishing:
                return
            if received_ms > self.active_ms:  # replies have been sent since, if it waited for room
                self.active_ms = received_ms
            self._bytes_since_request = 0
            self._take(frame, received_ms)
            if self.bytes_held:
                self._outgrown_ms = 0
                if self._budget.is_beyond(self):
                    self._come_back()
            # `_is_full`, without a call for each request.
            if (
                self.in_flight >= IN_FLIGHT_MAX
                or self.unsent_bytes >= UNSENT_BYTES_MAX
                or self._unanswered_bytes >= UNANSWERED_BYTES_MAX
            ):
                self._note_unsent()
                await self._flush()
                await self._wait_for_room()
                # One chunk may hold thousands of small requests: the others get their turn.
                await asyncio.sleep(0)
            elif self._clock.monotonic_ms() >= turn_ends_ms:
                # So they do when it holds a few of those that cost much.
                await self._flush()
                await asyncio.sleep(0)
                turn_ends_ms = self._clock.monotonic_ms() + TURN_MS_MAX
        if self._bytes_since_request >= RECEIVE_BUFFER_BYTES:
            # A large request on its way is activity; a few bytes of a header now and then are not.
            self.active_ms = max(self.active_ms, received_ms)
            self._bytes_since_request = 0
        if self._ready:
            await self._flush()

    def _take(self, frame: memoryview, received_ms: int) -> None:
        stats = self._stats
        count: ApiCount | None = None
        timed: TimedRequest | None = None
        tracing: RequestTracing | None = None
        api_key = api_key_of(frame)
        if stats is not None:
            count = stats.counts[api_key]
            if not count.answered & count.untimed_bits:
                timed = TimedRequest(
                    api_key, received_us=self._received_us, started_us=self._clock.monotonic_us()
                )
            if api_key == PRODUCE:
                tracing = stats.tracing
                if tracing is not None:
                    tracing.begin(self._clock.monotonic_us())
        answer = self._dispatch.answer(
            frame,
            api_key,
            peer=self.stream.peer,
            received_ms=received_ms,
            identity=self.identity,
        )
        if stats is not None and count is not None:
            count.answered += 1
            if tracing is not None:
                timed = self._traced(timed, tracing)
            if timed is not None:
                timed.ready_us = timed.handled_us = self._clock.monotonic_us()
                if answer is None:
                    stats.note_sent(timed, timed.ready_us)
        if answer is None:
            return
        self.in_flight += 1
        if not self._line and isinstance(answer, list):
            # As below for a reply at the front of the line, without its place in it.
            size_bytes = size_in_memory(answer)
            self.unsent_bytes += size_bytes
            self._ready += answer
            self._ready_bytes += size_bytes
            self._in_ready += 1
            if timed is not None:
                self._timed_ready.append(timed)
            return
        reply = answer if isinstance(answer, PendingReply) else PendingReply()
        reply.timed = timed
        self._line.append(reply)
        if isinstance(answer, list):
            reply.parts, reply.size_bytes = answer, self._count_unsent(answer)
            return
        reply.request_bytes = len(frame)
        self._unanswered += 1
        self._unanswered_bytes += reply.request_bytes
        if isinstance(answer, PendingReply):
            assert reply.parts is None, "a reply that is there already is a list of parts"
            reply.line = self
        else:
            assert self._waiting is not None
            self._waiting.start(self._finish_later(reply, answer))

    def _traced(self, timed: TimedRequest | None, tracing: "RequestTracing") -> TimedRequest | None:
        """What is timed of the produce request at hand: more, if a batch of it is traced."""
        trace = tracing.at_hand
        if trace is None:
            return timed
        if timed is None:
            timed = TimedRequest(
                PRODUCE,
                received_us=self._received_us,
                started_us=tracing.started_us,
                is_counted=False,
            )
        timed.trace = trace
        return timed

    def _end_traces(self) -> None:
        """Of requests whose replies have not been sent."""
        now_us = self._clock.monotonic_us()
        for timed in self._timed_ready:
            if timed.trace is not None:
                timed.trace.lost(timed, now_us, is_answered=True)
        for reply in self._line:
            waiting = reply.timed
            if waiting is not None and waiting.trace is not None:
                waiting.trace.lost(waiting, now_us, is_answered=reply.is_filled)

    async def _finish_later(self, reply: PendingReply, answer: Coroutine[Any, Any, Parts]) -> None:
        reply.parts = await answer
        self._move_line(reply)
        if self._ready:
            await self._flush()

    def filled(self, reply: PendingReply) -> None:
        """The reply is ready, and with it perhaps those behind it; see `PendingReply`."""
        self._move_line(reply)
        if self._ready and not self._sending and not self._wake_at_hand and not self._has_ended:
            self._wake_at_hand = True
            self.call_soon(self._send_filled)

    def call_soon(self, step: Callable[[], None]) -> None:
        """See `Line`."""
        asyncio.get_running_loop().call_soon(self._call, step)

    def _call(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            # Nobody awaits what the loop calls: the owner of this connection's tasks is told.
            assert self._waiting is not None
            self._waiting.fail(error)

    def _send_filled(self) -> None:
        """At once what the network takes; the rest is left to a task."""
        self._wake_at_hand = False
        if self._sending or self._has_ended or not self._ready:
            return
        buffers = in_memory(self._ready)
        if buffers is not None:
            rest = self.stream.send_now(buffers)
            if not rest:
                count, size_bytes = self._in_ready, self._ready_bytes
                self._ready, self._in_ready, self._ready_bytes = [], 0, 0
                self.active_ms = self._clock.monotonic_ms()
                self._have_sent(count, size_bytes)
                if self._timed_ready:
                    self._note_sent(self._timed_ready)
                    self._timed_ready = []
                if self._finishing and self.in_flight == 0:
                    self.stream.close()
                return
            self._ready = [*rest]
        assert self._waiting is not None
        self._waiting.start(self._flush())

    def _move_line(self, reply: PendingReply) -> None:
        """The reply has its parts: what is ready at the front of the line can be sent."""
        assert reply.parts is not None
        self._unanswered -= 1
        self._unanswered_bytes -= reply.request_bytes
        reply.size_bytes = self._count_unsent(reply.parts)
        self._note_unsent()
        self._make_room()
        if reply.timed is not None:
            reply.timed.ready_us = self._clock.monotonic_us()
        while self._line and (ready := self._line[0].parts) is not None:
            first = self._line.popleft()
            self._make_ready(ready, first.size_bytes)
            if first.timed is not None:
                self._timed_ready.append(first.timed)

    def _count_unsent(self, parts: Parts) -> int:
        size_bytes = size_in_memory(parts)
        self.unsent_bytes += size_bytes
        return size_bytes

    def _note_unsent(self) -> None:
        if self.unsent_bytes >= UNSENT_BYTES_MAX:
            self._unsent.note(self)

    def _make_ready(self, parts: Parts, size_bytes: int) -> None:
        self._ready += parts
        self._ready_bytes += size_bytes
        self._in_ready += 1

    async def _flush(self) -> None:
        """Sends what is ready; whoever sends already takes along what becomes ready meanwhile."""
        if self._sending:
            return
        self._sending = True
        try:
            while self._ready:
                parts, count, size_bytes = self._ready, self._in_ready, self._ready_bytes
                self._ready, self._in_ready, self._ready_bytes = [], 0, 0
                timed_count = len(self._timed_ready)
                await self._send(parts)
                self._have_sent(count, size_bytes)
                if timed_count:
                    timed = self._timed_ready[:timed_count]
                    del self._timed_ready[:timed_count]
                    self._note_sent(timed)
        finally:
            self._sending = False
        if self._finishing and self.in_flight == 0:
            self.stream.close()

    def _have_sent(self, count: int, size_bytes: int) -> None:
        self.in_flight -= count
        self.unsent_bytes -= size_bytes
        self._make_room()

    def _note_sent(self, timed: list[TimedRequest]) -> None:
        assert self._stats is not None
        sent_us = self._clock.monotonic_us()
        for one in timed:
            self._stats.note_sent(one, sent_us)

    async def _send(self, parts: Parts) -> None:
        whole = in_memory(parts)
        if whole is not None:
            await self.stream.send(whole)
            self.active_ms = self._clock.monotonic_ms()
            return
        buffers: list[Buffer] = []
        copied_bytes = 0
        for part in parts:
            if isinstance(part, FileRange):
                if part.byte_count <= SMALL_RANGE_BYTES:
                    if copied_bytes >= SMALL_COPIED_BYTES_MAX:
                        await self.stream.send(buffers, more=True)
                        buffers, copied_bytes = [], 0
                        await asyncio.sleep(0)  # each range is a read: the others get their turn
                    buffers.append(copied(part))
                    copied_bytes += part.byte_count
                    continue
                if buffers:
                    await self.stream.send(buffers, more=True)
                    buffers, copied_bytes = [], 0
                await self.stream.send_file(part)
                self.active_ms = self._clock.monotonic_ms()  # a slow reader takes long for them all
            else:
                assert isinstance(part, (bytes, bytearray, memoryview))
                buffers.append(part)
        if buffers:
            await self.stream.send(buffers)
        self.active_ms = self._clock.monotonic_ms()

    def _is_full(self) -> bool:
        return (
            self.in_flight >= IN_FLIGHT_MAX
            or self.unsent_bytes >= UNSENT_BYTES_MAX
            or self._unanswered_bytes >= UNANSWERED_BYTES_MAX
        )

    async def _wait_for_room(self) -> None:
        while self._is_full():
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def _come_back(self) -> None:
        """The request that was too large for the budget is in; a next one has no such right."""
        self._frames.shrink()
        self._hold_less(self._frames.buffer_bytes - self._buffer_bytes_idle)
        if self._budget.is_beyond(self):
            self._budget.come_back(self)

    def _hold_less(self, bytes_held: int) -> None:
        if bytes_held < self.bytes_held:
            given = self.bytes_held - bytes_held
            self.bytes_held = bytes_held
            self._budget.give(self, given, all_given=bytes_held == 0)


def copied(span: FileRange) -> bytes:
    """A small range as bytes: a reply that goes out in one call reaches its reader in one piece."""
    try:
        data = span.file.read_at(span.position, span.byte_count)
    except DiskError as error:
        raise send_error(error) from error
    if len(data) != span.byte_count:
        raise NetworkError(f"a file ends before {span.position + span.byte_count}")
    return data


def in_memory(parts: Parts) -> list[Buffer] | None:
    """The parts as bytes; None when there is a range of a file that is not to be copied."""
    buffers: list[Buffer] = []
    has_ranges = False
    for part in parts:
        if isinstance(part, bytes):  # most are, and it is the quickest to ask
            buffers.append(part)
        elif isinstance(part, FileRange):
            if not has_ranges and not are_copied(parts):
                return None
            has_ranges = True
            buffers.append(copied(part))
        else:
            assert isinstance(part, (bytearray, memoryview))
            buffers.append(part)
    return buffers


def are_copied(parts: Parts) -> bool:
    """Whether all ranges of files are copied."""
    total_bytes, largest_bytes = 0, 0
    for part in parts:
        if not isinstance(part, bytes) and isinstance(part, FileRange):
            total_bytes += part.byte_count
            if total_bytes > SMALL_COPIED_BYTES_MAX:
                return False
            largest_bytes = max(largest_bytes, part.byte_count)
    return total_bytes <= COPIED_BYTES_MAX or largest_bytes <= SMALL_RANGE_BYTES


def size_in_memory(parts: Parts) -> int:
    """What the parts hold of memory: a range of a file holds none."""
    size = 0
    for part in parts:
        if isinstance(part, bytes):
            size += len(part)
        elif not isinstance(part, FileRange):
            assert isinstance(part, (bytearray, memoryview))
            size += len(part)
    return size
