"""The bytes of one range, reply by reply: the next is on its way while the last is being decoded.

What a reply means is `fetch_reply`'s to say. Here is the shell: it finds the leader, asks, asks
again after what passes, and gives up after `wait_ms_max` without progress. In memory are at most
the reply in the caller's hands and the one after it.
"""

import asyncio
from dataclasses import dataclass
from typing import assert_never

from penstock.client.consume.cursor import Cursor, Reset
from penstock.client.consume.fetch_request import FetchRules, fetch_request, version_bound
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.consume.visible_batches import Aborted
from penstock.client.network.cluster import Cluster, Lane
from penstock.client.network.errors import ClientError, Refused
from penstock.model.error import ErrorCode
from penstock.model.identity import NO_TOPIC_ID, ProducerId
from penstock.model.offset import Offset
from penstock.spark.source.errors import NoProgress
from penstock.spark.source.fetch_reply import (
    Again,
    Answer,
    Brought,
    Gap,
    Hopeless,
    OutOfRange,
    fetch_bytes,
    judged,
)
from penstock.spark.source.plan import ReadRange
from penstock.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

FETCH_WAIT_MS = 500


@dataclass(slots=True, kw_only=True)
class FetchedBytes:
    """Whole batches, from the one that holds `position` on; the memory is the reply's own."""

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


class RangeFetcher:
    def __init__(
        self,
        cluster: Cluster,
        wanted: ReadRange,
        *,
        isolation: Isolation,
        fetch_bytes_max: int,
        wait_ms_max: int,
    ) -> None:
        self.cluster = cluster
        self.wanted = wanted
        self.isolation = isolation
        self.fetch_bytes_max = fetch_bytes_max
        self.wait_ms_max = wait_ms_max
        self._position = wanted.start
        self._seen_bytes = 0
        self._ahead: asyncio.Task[FetchedBytes | Lost | None] | None = None

    async def next(self) -> FetchedBytes | Lost | None:
        """What comes next; None once the end of the range has been reached."""
        if self._position >= self.wanted.end:
            return None
        if self._ahead is None:
            self._ahead = asyncio.ensure_future(self._fetch())
        found = await self._ahead
        self._ahead = None
        self._position = self.wanted.end if found is None else found.next_position
        if isinstance(found, FetchedBytes):
            self._seen_bytes += len(found.data)
        if self._position < self.wanted.end:
            self._ahead = asyncio.ensure_future(self._fetch())
        return found

    async def close(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.gather(self._ahead, return_exceptions=True)

    async def _fetch(self) -> FetchedBytes | Lost | None:
        position, end = self._position, self.wanted.end
        deadline_ms = self.cluster.clock.monotonic_ms() + self.wait_ms_max
        empty, empty_since_ms = 0, 0
        while True:
            try:
                lost = await self._made_anew()
                if lost is not None:
                    return lost
                told = await self._ask(position)
            except ClientError as error:
                if isinstance(error, Refused) and error.code == TOPIC_GONE:
                    return self._lost(end, "its topic was deleted")
                answer: Answer = Again(str(error), stale_metadata=True)
            else:
                answer = judged(
                    told,
                    position=position,
                    end=end,
                    isolation=self.isolation,
                    empty_before=empty,
                    empty_ms=self.cluster.clock.monotonic_ms() - empty_since_ms if empty else 0,
                )
            match answer:
                case Brought(next_position):
                    assert told is not None
                    return _fetched(told, position, next_position)
                case Gap():
                    return None
                case OutOfRange():
                    return await self._out_of_range()
                case Hopeless(code):
                    raise Refused(code, f"{self.wanted.partition} at offset {position}")
                case Again() as again:
                    if self.cluster.clock.monotonic_ms() >= deadline_ms:
                        raise NoProgress(
                            self.wanted.partition, position, again.reason, self.wait_ms_max
                        )
                    if not empty:
                        empty_since_ms = self.cluster.clock.monotonic_ms()
                    empty = empty + 1 if again.empty else 0
                    await self._pause(again)
                case _:
                    assert_never(answer)

    async def _made_anew(self) -> Lost | None:
        topic, wanted_id = self.wanted.partition.topic, self.wanted.topic_id
        view = await self.cluster.need((topic,))
        if NO_TOPIC_ID in (wanted_id, view.topic_id(topic)) or view.topic_id(topic) == wanted_id:
            return None
        return self._lost(self.wanted.end, f"topic {topic} was deleted and created again")

    async def _ask(self, position: Offset) -> PartitionData | None:
        partition = self.wanted.partition
        view = self.cluster.view
        leader = view.leader_of(partition)
        if leader is None:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, str(partition))
        channel = await self.cluster.channel(leader, Lane.FETCH)
        bytes_max = fetch_bytes(
            left=self.wanted.end - position,
            seen_bytes=self._seen_bytes,
            seen_offsets=position - self.wanted.start,
            bytes_max=self.fetch_bytes_max,
        )
        rules = FetchRules(
            wait_ms_max=FETCH_WAIT_MS,
            bytes_max=bytes_max,
            partition_bytes_max=bytes_max,
            isolation=self.isolation,
        )
        cursor = Cursor(partition=partition, fetch_position=position, look_up=Reset.NONE)
        request, _ = fetch_request([cursor], view, rules)
        reply = await channel.ask(
            request,
            FetchResponse,
            timeout_ms=self.cluster.rules.request_ms_max + FETCH_WAIT_MS,
            version=channel.version_for(FetchRequest, at_most=version_bound(request, view)),
        )
        if reply.error_code != ErrorCode.NONE:
            return PartitionData(error_code=reply.error_code)
        for topic in reply.responses:
            for told in topic.partitions:
                return told  # one was asked for
        return None

    async def _out_of_range(self) -> Lost:
        """Before the beginning of the log, or behind its end."""
        partition, end = self.wanted.partition, self.wanted.end
        first = await offsets_of(self.cluster, (partition,), When.EARLIEST)
        if first[partition] <= self._position:
            return self._lost(
                end, "its log ends before: it was truncated, or its topic was created again"
            )
        gone_until = min(first[partition], end)
        return self._lost(gone_until, f"its log begins at {first[partition]}")

    async def _pause(self, again: Again) -> None:
        await asyncio.sleep(self.cluster.rules.backoff_ms / 1000)
        if again.stale_metadata:
            try:
                await self.cluster.refresh((self.wanted.partition.topic,))
            except ClientError:
                return  # asked again, and told, by the next attempt

    def _lost(self, until: Offset, why: str) -> Lost:
        position = self._position
        return Lost(
            position=position,
            next_position=until,
            what=f"{self.wanted.partition}: offsets {position} to {until - 1} are gone, {why}",
        )


TOPIC_GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _fetched(told: PartitionData, position: Offset, next_position: Offset) -> FetchedBytes:
    assert isinstance(told.records, memoryview)
    return FetchedBytes(
        position=position,
        next_position=next_position,
        data=told.records,
        aborted=[
            Aborted(producer_id=ProducerId(one.producer_id), first_offset=Offset(one.first_offset))
            for one in told.aborted_transactions or ()
        ],
    )
