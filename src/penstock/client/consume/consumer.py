"""A consumer of partitions that it is told: records in order, from wherever it is put.

Positions and prefetching are `cursor`'s, decoding is `fetched_data`'s; both know no tasks. Here is
the shell: whenever something has changed, `_step` looks what should be fetched from whom and asks,
one request at a time for each broker; answers come back as callbacks and change something. It has
no `await`, so what it saw is still true when it acts.
"""

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from functools import partial
from types import TracebackType
from typing import Self

from penstock.client.consume.cursor import Cursor, Cursors, ReadReplica, Reset
from penstock.client.consume.fetch_request import (
    Asked,
    FetchFailed,
    FetchRedirected,
    FetchRules,
    FetchSucceeded,
    fetch_request,
    may_be_redirected,
    named_replica,
    outcome,
    version_bound,
)
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.consume.offsets import ListedOffset, When, list_offsets, offsets_of
from penstock.client.network.background_tasks import BackgroundTasks
from penstock.client.network.channel import Channel
from penstock.client.network.cluster import Cluster, Lane
from penstock.client.network.errors import RETRIABLE, STALE_METADATA, Refused, TimedOut
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import MIB
from penstock.model.offset import LeaderEpoch, Offset
from penstock.wire.messages.fetch import FetchRequest, FetchResponse

RECORDS_AT_ONCE = 500
LOOK_UP_PAUSE_MS = 1_000
READ_REPLICA_MS = 300_000
REPLICA_FAILURES_MAX = 2  # in a row, of one partition


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRules:
    fetch: FetchRules = field(default_factory=FetchRules)
    reset: Reset = Reset.LATEST
    prefetched_bytes_max: int = 64 * MIB
    request_ms_max: int = 30_000
    replica_retry_ms: int = 60_000  # then a replica that failed or was not reached is tried again


class Consumer:
    """Use as `async with Consumer(cluster) as consumer`."""

    def __init__(self, cluster: Cluster, *, rules: ConsumerRules | None = None) -> None:
        self.cluster = cluster
        self.rules = rules or ConsumerRules()
        self._cursors = Cursors(
            buffered_bytes_max=self.rules.prefetched_bytes_max, reset=self.rules.reset
        )
        self._channels: dict[NodeId, Channel] = {}
        self._fetching: set[NodeId] = set()
        self._unreachable: dict[NodeId, int] = {}  # replicas, and when each is tried again
        self._errors: dict[TopicPartition, Refused] = {}  # the latest of each
        self._background_tasks = BackgroundTasks(
            cluster.tasks, done=self._changed, backoff_ms=cluster.rules.backoff_ms
        )
        self._news = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None
        self._interrupted = False
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        self._background_tasks.close()
        if self._retry is not None:
            self._retry.cancel()

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._cursors.by_partition)

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions and no others; unknown ones are Refused."""
        wanted = list(dict.fromkeys(partitions))
        await self._need(wanted)
        self._cursors.assign(wanted)
        self._changed()

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions as well; unknown ones are Refused."""
        wanted = list(partitions)
        await self._need(wanted)
        self._cursors.assign(dict.fromkeys((*self._cursors.by_partition, *wanted)))
        self._changed()

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions no longer, whatever has become of them and of the others."""
        gone = frozenset(partitions)
        self._cursors.assign(one for one in self.assignment if one not in gone)
        for one in gone:
            self._errors.pop(one, None)
        self._changed()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next record handed out is the one at `offset`, or the first after it."""
        assert offset >= 0, offset
        self._cursors.seek(partition, Offset(offset))
        self._changed()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        self._seek_to_end_of_log(partitions, Reset.EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        self._seek_to_end_of_log(partitions, Reset.LATEST)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hands out nothing of these and fetches no more of them, until they are resumed."""
        for one in partitions:
            self._cursors.by_partition[one].paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for one in partitions:
            self._cursors.by_partition[one].paused = False
        self._changed()

    async def position(self, partition: TopicPartition) -> Offset:
        """The offset of the next record to be handed out."""
        cursor = self._cursors.by_partition[partition]
        try:
            async with asyncio.timeout(self.rules.request_ms_max / 1000):
                while cursor.position is None:
                    self._raise_error()
                    self._step()
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as error:
            raise TimedOut(f"{partition}: no broker told where its log begins or ends") from error
        return cursor.position

    async def poll(
        self, *, wait_ms: int, records_max: int = RECORDS_AT_ONCE
    ) -> list[ConsumedRecord]:
        """The next records, in order within each partition; none when `wait_ms` have passed.

        Raises what stands in the way of a partition: Refused, or CorruptBatch.
        """
        deadline_ms = self.cluster.clock.monotonic_ms() + wait_ms
        while True:
            self._raise_error()
            records = self._cursors.take(records_max)
            self._step()
            left_ms = deadline_ms - self.cluster.clock.monotonic_ms()
            if records or left_ms <= 0 or self._interrupted:
                self._interrupted = False
                return records
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_ms / 1000):
                    await self._news.wait()

    def interrupt(self) -> None:
        """The poll under way, or else the next one, waits no longer."""
        self._interrupted = True
        self._news.set()

    def positions(self) -> dict[TopicPartition, Offset]:
        """The offset after the last record handed out, of each partition that has a position."""
        return {
            partition: cursor.position
            for partition, cursor in self._cursors.by_partition.items()
            if cursor.position is not None
        }

    def leader_epoch_before(self, partition: TopicPartition, offset: Offset) -> LeaderEpoch | None:
        """That of the last record handed out, if `offset` is the position after it."""
        cursor = self._cursors.by_partition.get(partition)
        if cursor is None or cursor.position != offset:
            return None
        return cursor.leader_epoch

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        return await offsets_of(self.cluster, partitions, When.EARLIEST)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """The ends of what may be read: with READ_COMMITTED the last stable offsets."""
        isolation = self.rules.fetch.isolation
        return await offsets_of(self.cluster, partitions, When.LATEST, isolation=isolation)

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        """The first record of each partition that is at least as young; no offset if none is."""
        listed = await list_offsets(
            self.cluster, timestamps_ms, isolation=self.rules.fetch.isolation
        )
        found = {}
        for one, result in listed.items():
            if isinstance(result, Refused):
                raise result
            found[one] = result
        return found

    async def _need(self, partitions: Collection[TopicPartition]) -> None:
        topics = dict.fromkeys(one.topic for one in partitions)
        view = await self.cluster.need(topics)
        if any(view.partition(one) is None for one in partitions):
            view = await self.cluster.refresh(topics)  # they may have been added since we looked
        for one in partitions:
            if view.partition(one) is None:
                raise Refused(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(one), "there is no such partition"
                )

    def _seek_to_end_of_log(self, partitions: Iterable[TopicPartition] | None, end: Reset) -> None:
        for one in self.assignment if partitions is None else partitions:
            self._cursors.seek_to_end_of_log(one, end)
        self._changed()

    def _raise_error(self) -> None:
        for partition in self._errors:
            raise self._errors.pop(partition)

    def _changed(self) -> None:
        """Something is not as it was: fetch on, and let whoever waits look again."""
        if not self._closed:
            self._step()
            self._news.set()

    def _step(self) -> None:
        now_ms = self.cluster.clock.monotonic_ms()
        if self._cursors.without_position(now_ms):
            self._background_tasks.run("consumer: positions", self._look_up_positions)
        by_node: dict[NodeId, list[Cursor]] = {}
        for cursor in self._cursors.fetchable(now_ms):
            node = self._fetched_from(cursor, now_ms=now_ms)
            if node is None:
                self._background_tasks.run("consumer: metadata", self._refresh)
            elif node not in self._fetching:
                by_node.setdefault(node, []).append(cursor)
        for node, cursors in by_node.items():
            channel = self._channels.get(node)
            if channel is None or not channel.is_open:
                self._start_connecting(node)
            else:
                self._fetch(node, channel, cursors)

    def _fetched_from(self, cursor: Cursor, *, now_ms: int) -> NodeId | None:
        """The replica that the leader named, or the leader while that one fails or is out of reach:
        a connection to it is then tried beside the fetches, now and then.
        """
        view = self.cluster.view
        replica = named_replica(cursor, view, now_ms=now_ms)
        if replica is None:
            cursor.read_replica = None
            return view.leader_of(cursor.partition)
        if cursor.read_replica is not None and cursor.read_replica.is_avoided:
            return view.leader_of(cursor.partition)
        retry_at_ms = self._unreachable.get(replica)
        if retry_at_ms is None:
            return replica
        if retry_at_ms <= now_ms:
            self._start_connecting(replica)
        return view.leader_of(cursor.partition)

    def _start_connecting(self, node: NodeId) -> None:
        self._background_tasks.run(f"consumer: node {node}", partial(self._connect, node))

    def _fetch(self, node: NodeId, channel: Channel, cursors: list[Cursor]) -> None:
        view = self.cluster.view
        with_rack = may_be_redirected(cursors, node)
        request, asked = fetch_request(cursors, view, self.rules.fetch, with_rack=with_rack)
        version = channel.version_for(FetchRequest, at_most=version_bound(request, view))
        self._fetching.add(node)
        for cursor in cursors:
            cursor.fetching = True
        answer = channel.post(request, FetchResponse, version=version)
        wait_ms = self.rules.fetch.wait_ms_max + self.rules.request_ms_max
        late = TimedOut(f"{channel.address}: no answer within {wait_ms} ms")
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, channel.close, late)
        answer.add_done_callback(lambda _: timer.cancel())
        answer.add_done_callback(partial(self._answered, node, asked))

    def _answered(
        self, node: NodeId, asked: list[Asked], answer: asyncio.Future[FetchResponse]
    ) -> None:
        self._fetching.discard(node)
        for one in asked:
            one.cursor.fetching = False
        error = None if answer.cancelled() else answer.exception()
        if self._closed:
            return
        if answer.cancelled() or error is not None:
            # A connection that was lost may be made again at once: that attempt will tell.
            if isinstance(error, TimedOut) and any(_is_read_from(a.cursor, node) for a in asked):
                self._not_reached(node)
            for one in asked:
                self._failed(node, FetchFailed(asked=one, code=ErrorCode.NETWORK_EXCEPTION))
        else:
            for result in outcome(answer.result(), asked, self.cluster.view, self.rules.fetch):
                match result:
                    case FetchSucceeded():
                        if _is_read_from(result.asked.cursor, node):
                            result.asked.cursor.replica_failures = 0
                        self._cursors.fetched(result.data, move=result.asked.move)
                    case FetchRedirected():
                        self._redirected(result)
                    case FetchFailed():
                        self._failed(node, result)
        self._changed()

    def _redirected(self, redirected: FetchRedirected) -> None:
        cursor, view = redirected.asked.cursor, self.cluster.view
        known = view.partition(cursor.partition)
        if known is None or redirected.to not in view.brokers:
            # Asked again at once, the leader would say the same.
            self._background_tasks.run("consumer: metadata", self._refresh)
            self._retry_later(cursor.partition)
            return
        cursor.read_replica = ReadReplica(
            node=redirected.to,
            leader_epoch=known.leader_epoch,
            until_ms=self.cluster.clock.monotonic_ms() + READ_REPLICA_MS,
        )
        if redirected.to in self._unreachable:
            # The leader may name it again at once, even when it is not told the rack: what selects
            # replicas there may look at other things.
            self._retry_later(cursor.partition)

    def _not_reached(self, replica: NodeId) -> None:
        now_ms = self.cluster.clock.monotonic_ms()
        self._unreachable[replica] = now_ms + self.rules.replica_retry_ms

    def _replica_failed(self, cursor: Cursor) -> None:
        """The leader is asked, which may name the replica again: it does not know that its disk or
        its connections fail. From the second time in a row on the leader is read for a while.
        """
        cursor.replica_failures += 1
        if cursor.read_replica is None or cursor.replica_failures < REPLICA_FAILURES_MAX:
            cursor.read_replica = None
            return
        until_ms = self.cluster.clock.monotonic_ms() + self.rules.replica_retry_ms
        cursor.read_replica = replace(cursor.read_replica, is_avoided=True, until_ms=until_ms)

    def _failed(self, node: NodeId, failed: FetchFailed) -> None:
        cursor, partition, code = failed.asked.cursor, failed.asked.partition, failed.code
        if self._cursors.by_partition.get(partition) is not cursor:
            return  # given back meanwhile
        if _is_read_from(cursor, node):
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                cursor.read_replica = None
                code = ErrorCode.OFFSET_NOT_AVAILABLE  # there: the leader knows where the log ends
            else:
                self._replica_failed(cursor)
        refused = Refused(code, f"{partition} at offset {failed.asked.position}")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not self._cursors.out_of_range(partition, move=failed.asked.move):
                self._errors[partition] = refused
        elif code not in RETRIABLE:
            self._errors[partition] = refused
        elif code in STALE_METADATA:
            self._background_tasks.run("consumer: metadata", self._refresh)
        self._retry_later(partition)

    def _retry_later(self, partition: TopicPartition) -> None:
        backoff_ms = self.cluster.rules.backoff_ms
        cursor = self._cursors.by_partition.get(partition)
        if cursor is None or cursor.position is None:
            return
        cursor.retry_at_ms = self.cluster.clock.monotonic_ms() + backoff_ms
        if self._retry is not None:
            self._retry.cancel()
        loop = asyncio.get_running_loop()
        self._retry = loop.call_later((backoff_ms + 1) / 1000, self._changed)

    async def _refresh(self) -> None:
        topics = dict.fromkeys(partition.topic for partition in self._cursors.by_partition)
        view = await self.cluster.refresh(topics)
        if any(view.leader_of(partition) is None for partition in self._cursors.by_partition):
            # Asked again at once, the broker would say the same.
            await asyncio.sleep(self.cluster.rules.backoff_ms / 1000)

    async def _connect(self, node: NodeId) -> None:
        try:
            self._channels[node] = await self.cluster.channel(node, Lane.FETCH)
        finally:
            readers = [
                one for one in self._cursors.by_partition.values() if _is_read_from(one, node)
            ]
            if node not in self._channels or not self._channels[node].is_open:
                # Perhaps another node leads by now.
                self._background_tasks.run("consumer: metadata", self._refresh)
                if readers:
                    self._not_reached(node)
            elif self._unreachable.pop(node, None) is not None:
                # It may lag behind by now, which the leader knows.
                for cursor in readers:
                    cursor.read_replica = None

    async def _look_up_positions(self) -> None:
        """Finds the end of the log that each cursor without a position asks for."""
        now_ms = self.cluster.clock.monotonic_ms()
        cursors = self._cursors.without_position(now_ms)
        for cursor in cursors:
            # Asked for once; if that fails, again only after a while.
            cursor.retry_at_ms = now_ms + LOOK_UP_PAUSE_MS
            if cursor.look_up is Reset.NONE:
                self._errors[cursor.partition] = Refused(
                    ErrorCode.OFFSET_OUT_OF_RANGE, str(cursor.partition), "no position is set"
                )
        move = {c.partition: c.move for c in cursors if c.look_up is not Reset.NONE}
        wanted = {
            c.partition: When.EARLIEST if c.look_up is Reset.EARLIEST else When.LATEST
            for c in cursors
            if c.look_up is not Reset.NONE
        }
        try:
            listed = await list_offsets(self.cluster, wanted, isolation=self.rules.fetch.isolation)
        except Refused as refused:
            self._errors.update(dict.fromkeys(wanted, refused))
            return
        for one, result in listed.items():
            if isinstance(result, Refused):
                self._errors[one] = result
            else:
                assert result.offset is not None
                self._cursors.looked_up(one, result.offset, move=move[one])


def _is_read_from(cursor: Cursor, node: NodeId) -> bool:
    """Whether a node is the replica that the leader of a partition has named."""
    return cursor.read_replica is not None and cursor.read_replica.node == node
