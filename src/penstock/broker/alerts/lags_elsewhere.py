"""Lags of groups in partitions that have no replica here, from the leaders of these.

One question to each leader serves all groups, as in the doctor: which is the first record that is
young enough for every rule? A group that has read up to there is within all thresholds. Of what
others have not read, the first record is read for its time, LAGS_READ_MAX partitions at a time, and
remembered: a group that stands still costs one read. What was deleted unread is passed over, so
leaders are asked where those logs begin. Where there are more than LAGS_ELSEWHERE_MAX partitions,
they are asked for in turns.

A task of its own asks, so a node that does not answer holds up no round of the alerts. It connects
to ask, and hangs up afterwards. What could not be asked for some time is not known any more.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from penstock.client.admin.group_lag import timestamps_at
from penstock.client.consume.offsets import When, list_offsets
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Refused
from penstock.metadata.image.image import Image
from penstock.model.identity import TopicPartition
from penstock.model.limit import LAGS_ELSEWHERE_MAX, LAGS_ELSEWHERE_MS_MAX, LAGS_READ_MAX
from penstock.model.offset import Offset
from penstock.world.ports import Clock

logger = logging.getLogger(__name__)

ROUNDS_PER_QUESTION = 3
QUESTIONS_MAX = 4  # to a leader at a time: who is behind, ends, beginnings, and a read
QUESTIONS_KEPT = 3  # an answer is used for so long, if there is none after it


class GroupPlace(NamedTuple):
    group: str
    partition: TopicPartition


class _Unread(NamedTuple):
    partition: TopicPartition
    offset: Offset


class _Recent(NamedTuple):
    """The first record that is young enough, or the end where none is."""

    offset: Offset
    start_offset: Offset  # of the log; 0 where nobody is behind
    asked_ms: int


class LagsElsewhere:
    """`client` gives a way to the cluster, not yet entered; None while no broker is known."""

    def __init__(
        self,
        *,
        client: Callable[[], Cluster | None],
        image: Callable[[], Image],
        within_ms: int,  # an age up to this is right by every rule
        interval_ms: int,
        clock: Clock,
    ) -> None:
        self._client = client
        self._image = image
        self._within_ms = within_ms
        self._interval_ms = interval_ms * ROUNDS_PER_QUESTION
        self._clock = clock
        self._wanted: Mapping[TopicPartition, Collection[Offset]] = {}
        self._recent: dict[TopicPartition, _Recent] = {}
        # The time of the first record from there on; None if there is none below the offset.
        self._since: dict[_Unread, tuple[int | None, Offset]] = {}
        self._asked_last: TopicPartition | None = None
        self._read_last: TopicPartition | None = None

    def ages_s(self, committed: Mapping[GroupPlace, Offset]) -> dict[GroupPlace, float]:
        """As far as they are known; these are asked for from now on. 0 is an age that is right by
        every rule.
        """
        wanted: dict[TopicPartition, set[Offset]] = {}
        ages = {}
        for place, offset in committed.items():
            wanted.setdefault(place.partition, set()).add(offset)
            age_s = self._age_s(place.partition, offset)
            if age_s is not None:
                ages[place] = age_s
        self._wanted = wanted
        return ages

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.ask()
            await asyncio.sleep(self._interval_ms / 1000)

    async def ask(self) -> None:
        wanted = self._wanted
        self._recent = {one: self._recent[one] for one in self._recent.keys() & wanted.keys()}
        unread = {self._unread(one, offset) for one, those in wanted.items() for offset in those}
        self._since = {one: found for one, found in self._since.items() if one in unread}
        # A partition without a leader would keep the answers of the others waiting.
        led = [partition for partition in wanted if self._is_led(partition)]
        asked = _in_turn(led, after=self._asked_last)[:LAGS_ELSEWHERE_MAX]
        client = self._client() if asked else None
        if client is None:
            return
        self._asked_last = asked[-1]  # whatever the answer: others have their turn next
        try:
            async with asyncio.timeout(LAGS_ELSEWHERE_MS_MAX / 1000), client as cluster:
                view = await cluster.refresh(dict.fromkeys(one.topic for one in asked))
                # A question about a topic that cannot be described is refused as a whole.
                described = [one for one in asked if one.topic in view.topics]
                await self._ask_recent(cluster, wanted, described)
                await self._read_times(cluster, wanted, described)
        except (ClientError, TimeoutError) as error:
            logger.info("alerts lags_elsewhere=%d known=false reason=%r", len(asked), error)

    def _age_s(self, partition: TopicPartition, offset: Offset) -> float | None:
        recent = self._recent.get(partition)
        kept_ms = self._interval_ms * QUESTIONS_KEPT + LAGS_ELSEWHERE_MS_MAX
        if recent is None or self._clock.monotonic_ms() - recent.asked_ms > kept_ms:
            return None
        unread = self._unread(partition, offset)
        if unread.offset >= recent.offset:
            return 0.0
        found = self._found(unread, recent)
        if found is None:
            return None
        since_ms, _ = found
        return 0.0 if since_ms is None else max(0, self._clock.now_ms() - since_ms) / 1000

    def _unread(self, partition: TopicPartition, committed: Offset) -> _Unread:
        recent = self._recent.get(partition)
        return _Unread(
            partition, committed if recent is None else max(committed, recent.start_offset)
        )

    def _found(self, unread: _Unread, recent: _Recent) -> tuple[int | None, Offset] | None:
        """What is remembered. If there was no record, there may be one now."""
        found = self._since.get(unread)
        if found is None or (found[0] is None and found[1] != recent.offset):
            return None
        return found

    def _is_led(self, partition: TopicPartition) -> bool:
        topic = self._image().topics_by_name.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return False
        return topic.partitions[partition.partition].leader is not None

    async def _ask_recent(
        self,
        cluster: Cluster,
        wanted: Mapping[TopicPartition, Collection[Offset]],
        asked: Collection[TopicPartition],
    ) -> None:
        asked_ms = self._clock.monotonic_ms()
        since_ms = max(0, self._clock.now_ms() - self._within_ms)
        wait_ms = LAGS_ELSEWHERE_MS_MAX // QUESTIONS_MAX
        listed = await list_offsets(cluster, dict.fromkeys(asked, since_ms), timeout_ms=wait_ms)
        known = {one: found for one, found in listed.items() if not isinstance(found, Refused)}
        old = [one for one, found in known.items() if found.offset is None]
        ends = await list_offsets(cluster, dict.fromkeys(old, When.LATEST), timeout_ms=wait_ms)
        recent = {}
        for partition, found in known.items():
            told = ends[partition] if found.offset is None else found
            if not isinstance(told, Refused) and told.offset is not None:
                recent[partition] = told.offset
        behind = [one for one, offset in recent.items() if min(wanted[one]) < offset]
        starts = await list_offsets(
            cluster, dict.fromkeys(behind, When.EARLIEST), timeout_ms=wait_ms
        )
        for partition, offset in recent.items():
            start_offset = Offset(0)
            if partition in starts:
                start = starts[partition]
                if isinstance(start, Refused) or start.offset is None:
                    continue
                start_offset = start.offset
            self._recent[partition] = _Recent(offset, start_offset, asked_ms)

    async def _read_times(
        self,
        cluster: Cluster,
        wanted: Mapping[TopicPartition, Collection[Offset]],
        asked: Iterable[TopicPartition],
    ) -> None:
        """One offset of each partition, that of the group that is furthest behind first."""
        late: dict[TopicPartition, Offset] = {}
        for partition in asked:
            recent = self._recent.get(partition)
            if recent is None:
                continue
            unread = [self._unread(partition, offset) for offset in wanted[partition]]
            late_offsets = [
                one.offset
                for one in unread
                if one.offset < recent.offset
                if self._found(one, recent) is None
            ]
            if late_offsets:
                late[partition] = min(late_offsets)
        read = _in_turn(late, after=self._read_last)[:LAGS_READ_MAX]
        if not read:
            return
        self._read_last = read[-1]
        found = await timestamps_at(cluster, {one: late[one] for one in read})
        for partition, since_ms in found.items():
            recent = self._recent[partition]
            self._since[_Unread(partition, late[partition])] = (since_ms, recent.offset)


def _in_turn(
    partitions: Iterable[TopicPartition], *, after: TopicPartition | None
) -> list[TopicPartition]:
    """In order, from the one behind `after` on, and then from the first."""
    ordered = sorted(partitions)
    if after is None:
        return ordered
    later = [one for one in ordered if one > after]
    return later + ordered[: len(ordered) - len(later)]
