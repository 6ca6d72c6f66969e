"""The bytes of a task's ranges, reply by reply: the next ones are on their way while one is being
decoded.

What a reply means is `fetch_reply`'s to say, and `range_progress` says what is asked for next. Here
is the shell: it knows the leaders, asks, asks again after what passes, and gives up a range after
`wait_ms_max` without progress. In memory are at most the reply in the caller's hands and
REPLIES_AHEAD_MAX more.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from penstock.client.consume.cursor import Cursor, Reset
from penstock.client.consume.fetch_request import FetchRules, fetch_request, version_bound
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.consume.visible_batches import Aborted
from penstock.client.network.cluster import Cluster, Lane
from penstock.client.network.errors import ClientError, Refused
from penstock.client.network.routing import ClusterView
from penstock.model.error import ErrorCode
from penstock.model.identity import NO_TOPIC_ID, NodeId, ProducerId, TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.spark.source.errors import NoProgress
from penstock.spark.source.fetch_reply import (
    Again,
    Brought,
    Gap,
    Hopeless,
    NotReached,
    OutOfRange,
    judged,
)
from penstock.spark.source.plan import ReadRange
from penstock.spark.source.range_progress import PlannedFetch, RangeProgress, RangesLeft
from penstock.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

FETCH_WAIT_MS = 500
REPLIES_AHEAD_MAX = 4  # of all nodes: asked for, or here and not decoded yet
TOPIC_GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@dataclass(slots=True, kw_only=True)
class FetchedBytes:
    """Whole batches, from the one that holds `position` on; the memory is the reply's own."""

    wanted: ReadRange
    position: Offset
    next_position: Offset
    data: memoryview
    aborted: list[Aborted]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Offsets [position, next_position) are gone: a sentence for the user says why."""

    position: Offset
    next_position: Offset
    what: str


Fetched = FetchedBytes | Lost


class TaskFetcher:
    def __init__(
        self,
        cluster: Cluster,
        ranges: Iterable[ReadRange],
        *,
        isolation: Isolation,
        fetch_bytes_max: int,
        wait_ms_max: int,
    ) -> None:
        self.cluster = cluster
        self.ranges = RangesLeft(ranges)
        self.isolation = isolation
        self.fetch_bytes_max = fetch_bytes_max
        self.wait_ms_max = wait_ms_max
        self._in_flight: Counter[NodeId] = Counter()
        self._arrived: deque[list[Fetched]] = deque()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None

    async def next(self) -> list[Fetched] | None:
        """What comes next, of one or several ranges; None once the end of each was reached."""
        self._send()
        while not self._arrived:
            if self._error is not None:
                raise self._error
            if self.ranges.is_done:
                return None
            self._changed.clear()
            await self._changed.wait()
        found = self._arrived.popleft()
        self._send()
        return found

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _send(self) -> None:
        """Asks for as much as may be asked for now."""
        view = self.cluster.view
        unknown = self.ranges.take(lambda one: one.wanted.partition.topic not in view.topics)
        if unknown:
            self._start(self._look_up(unknown))
        remade = self.ranges.take(self._is_remade)
        if remade:
            self._lose(remade, "topic {topic} was deleted and created again")
        leaderless = self.ranges.take(lambda one: view.leader_of(one.wanted.partition) is None)
        if leaderless:
            again = Again(ErrorCode.LEADER_NOT_AVAILABLE.name, stale_metadata=True)
            self._start(self._ask_again(leaderless, again))
        while self._in_flight.total() + len(self._arrived) < REPLIES_AHEAD_MAX:
            planned = self.ranges.next_fetch(
                view.leader_of, in_flight=self._in_flight, bytes_max=self.fetch_bytes_max
            )
            if planned is None:
                break
            self._in_flight[planned.node] += 1
            self._start(self._fetch(planned, view))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._error = self._error or task.exception()
        self._changed.set()

    async def _look_up(self, ranges: Sequence[RangeProgress]) -> None:
        """Topics that are not known yet, or not any more."""
        for topic in dict.fromkeys(one.wanted.partition.topic for one in ranges):
            of_topic = [one for one in ranges if one.wanted.partition.topic == topic]
            self._asked(of_topic)
            again = None
            try:
                await self.cluster.need((topic,))
            except ClientError as error:
                if isinstance(error, Refused) and error.code == TOPIC_GONE:
                    self._lose(of_topic, "its topic was deleted")
                    continue
                again = Again(str(error), stale_metadata=True)
            if again is None:
                self.ranges.wait(of_topic)
            else:
                self._start(self._ask_again(of_topic, again))
        self._send()

    async def _fetch(self, planned: PlannedFetch, view: ClusterView) -> None:
        self._asked(planned.ranges)
        failed = None
        told: dict[TopicPartition, PartitionData] = {}
        try:
            told = await self._ask(planned, view)
        except ClientError as error:
            failed = Again(str(error), stale_metadata=True)
        finally:
            self._in_flight[planned.node] -= 1
        if failed is not None:
            await self._ask_again(planned.ranges, failed)
            return
        out_of_range, again = self._accept(planned, told)
        self._changed.set()
        self._send()
        for reason, ranges in again.items():
            self._start(self._ask_again(ranges, reason))
        for one in out_of_range:
            await self._out_of_range(one)

    def _accept(
        self, planned: PlannedFetch, told: dict[TopicPartition, PartitionData]
    ) -> tuple[list[RangeProgress], dict[Again, list[RangeProgress]]]:
        """Takes a reply in; the ranges that the log does not have, and those to be asked again."""
        now_ms = self.cluster.clock.monotonic_ms()
        brought: list[Fetched] = []
        moved, not_reached, out_of_range = [], [], []
        again: dict[Again, list[RangeProgress]] = {}
        with_records = sum(bool(data.records) for data in told.values())
        for one in planned.ranges:
            data = told.get(one.wanted.partition)
            others = with_records - (data is not None and bool(data.records))
            answer = judged(
                data,
                position=one.position,
                end=one.wanted.end,
                isolation=self.isolation,
                empty_before=one.empty_replies,
                empty_ms=one.empty_ms(now_ms),
                others_brought=others > 0,
            )
            match answer:
                case Brought(next_position):
                    assert data is not None
                    fetched = _fetched(data, one, next_position)
                    brought.append(fetched)
                    one.moved(next_position, size_bytes=len(fetched.data))
                    moved.append(one)
                case Gap():
                    one.moved(one.wanted.end)
                case NotReached():
                    one.not_reached()
                    not_reached.append(one)
                case OutOfRange():
                    out_of_range.append(one)
                case Hopeless(code):
                    raise Refused(code, f"{one.wanted.partition} at offset {one.position}")
                case Again():
                    one.not_moved(empty=answer.empty, now_ms=now_ms)
                    again.setdefault(answer, []).append(one)
                case _:
                    assert_never(answer)
        if brought:
            self._arrived.append(brought)
            self.ranges.wait(moved)
            self.ranges.wait_first(not_reached)
        elif not_reached:  # by parts of batches alone, which no broker should send
            again[Again("no whole batch in the reply")] = not_reached
        return out_of_range, again

    async def _ask(
        self, planned: PlannedFetch, view: ClusterView
    ) -> dict[TopicPartition, PartitionData]:
        """By the view that it was planned with: in a later one a topic may be another one."""
        channel = await self.cluster.channel(planned.node, Lane.FETCH)
        rules = FetchRules(
            wait_ms_max=FETCH_WAIT_MS,
            bytes_max=planned.bytes_max,
            partition_bytes_max=planned.bytes_max,
            isolation=self.isolation,
        )
        cursors = [
            Cursor(partition=one.wanted.partition, fetch_position=one.position, look_up=Reset.NONE)
            for one in planned.ranges
        ]
        request, _ = fetch_request(cursors, view, rules)
        bounds = {
            one.wanted.partition: one.bytes_wanted(planned.bytes_max) for one in planned.ranges
        }
        for topic in request.topics:
            for partition in topic.partitions:
                place = TopicPartition(topic.topic, partition.partition)
                partition.partition_max_bytes = bounds[place]
        reply = await channel.ask(
            request,
            FetchResponse,
            timeout_ms=self.cluster.rules.request_ms_max + FETCH_WAIT_MS,
            version=channel.version_for(FetchRequest, at_most=version_bound(request, view)),
        )
        if reply.error_code != ErrorCode.NONE:
            return {place: PartitionData(error_code=reply.error_code) for place in bounds}
        names = view.topic_names()
        return {
            TopicPartition(
                answer.topic or names.get(TopicId(answer.topic_id), ""), data.partition_index
            ): data
            for answer in reply.responses
            for data in answer.partitions
        }

    async def _out_of_range(self, one: RangeProgress) -> None:
        """Before the beginning of the log, or behind its end."""
        partition, end = one.wanted.partition, one.wanted.end
        first = (await offsets_of(self.cluster, (partition,), When.EARLIEST))[partition]
        if first <= one.position:
            why = "its log ends before: it was truncated, or its topic was created again"
            self._lose([one], why)
        else:
            self._lose([one], f"its log begins at {first}", until=Offset(min(first, end)))
            self.ranges.wait([one])
        self._send()

    async def _ask_again(self, ranges: Sequence[RangeProgress], again: Again) -> None:
        now_ms = self.cluster.clock.monotonic_ms()
        self._asked(ranges)
        for one in ranges:
            if one.asked_for_ms(now_ms) >= self.wait_ms_max:
                raise NoProgress(one.wanted.partition, one.position, again.reason, self.wait_ms_max)
        await asyncio.sleep(self.cluster.rules.backoff_ms / 1000)
        if again.stale_metadata:
            topics = dict.fromkeys(one.wanted.partition.topic for one in ranges)
            # What fails is asked again, and told, by the next attempt.
            with contextlib.suppress(ClientError):
                await self.cluster.refresh(topics)
        self.ranges.wait(ranges)
        self._send()

    def _asked(self, ranges: Iterable[RangeProgress]) -> None:
        now_ms = self.cluster.clock.monotonic_ms()
        for one in ranges:
            one.asked(now_ms)

    def _is_remade(self, one: RangeProgress) -> bool:
        there = self.cluster.view.topic_id(one.wanted.partition.topic)
        return NO_TOPIC_ID not in (there, one.wanted.topic_id) and there != one.wanted.topic_id

    def _lose(
        self, ranges: Iterable[RangeProgress], why: str, *, until: Offset | None = None
    ) -> None:
        """Up to an offset, or all that is left of them."""
        lost: list[Fetched] = []
        for one in ranges:
            end = one.wanted.end if until is None else until
            partition = one.wanted.partition
            reason = why.format(topic=partition.topic)
            lost.append(
                Lost(
                    position=one.position,
                    next_position=end,
                    what=f"{partition}: offsets {one.position} to {end - 1} are gone, {reason}",
                )
            )
            one.moved(end)
        self._arrived.append(lost)
        self._changed.set()


def _fetched(data: PartitionData, one: RangeProgress, next_position: Offset) -> FetchedBytes:
    assert isinstance(data.records, memoryview)
    return FetchedBytes(
        wanted=one.wanted,
        position=one.position,
        next_position=next_position,
        data=data.records,
        aborted=[
            Aborted(producer_id=ProducerId(a.producer_id), first_offset=Offset(a.first_offset))
            for a in data.aborted_transactions or ()
        ],
    )
