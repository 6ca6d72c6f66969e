"""Incremental fetch sessions (KIP-227): a repeated fetch names only the partitions that changed.

A session stores, for each partition, the last request of its fetcher and the last answer, so that
requests and replies carry only what changed. Every request takes two steps, and the logs are read
between them:

    begin(request)          -> the partitions to read, or the error that ends the session
    finish(fetch, answers)  -> the session id and the answers that must be sent

    request epoch   meaning
        -1          no session, please; one that is named is closed
         0          everything is named here; open a session for it if there is room
       n > 0        what changed since request n - 1 of this session

The first step moves the session on to epoch n + 1. If the second step finds another epoch, another
request of the session came while the first waited for data; the first is refused, because its
answer would be wrong.

Invariants:
 1. At most `sessions_max` sessions, together of at most `partitions_max` partitions. When they are
    full, stale sessions go; where there are none, a fetch is served without a session: sessions
    only save bytes.
 2. Sessions are ordered by last use, oldest first.
 3. A session has at least one partition.
 4. A session is used and closed by the principal that opened it alone: to others it is not found.
    Whoever guesses its id would be told the names of its topics.
 5. Within a session, a partition whose data was sent moves to the end, so that a limit on the size
    of replies does not starve any partition.
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Final

from penstock.model import limit
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicId
from penstock.model.lazy_dataclass import dataclass
from penstock.security.principal import ANONYMOUS, Principal
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

NO_SESSION: Final = 0
EPOCH_NONE: Final = -1
EPOCH_FIRST: Final = 0
EPOCH_MAX: Final = 2**31 - 1
# A session unused for so long is stale; one younger than this is spared.
EVICTION_MS: Final = 120_000

# By topic id or by name, as the version of the request has it, and partition.
PartitionKey = tuple[bytes | str, int]


class Wanted:
    """One partition that a fetcher wants, and the last answer for it. Built per fetch: slots."""

    __slots__ = ("asked", "key", "sent_high_watermark", "sent_start_offset", "topic", "topic_id")

    def __init__(self, topic: FetchTopic, asked: FetchPartition, *, by_topic_id: bool) -> None:
        self.topic = topic.topic  # "" until the name of a topic id is known
        self.topic_id = TopicId(topic.topic_id)
        self.key: PartitionKey = (topic.topic_id if by_topic_id else topic.topic, asked.partition)
        self.asked = asked
        self.sent_high_watermark = -1
        self.sent_start_offset = -1

    def is_sent(self, *, high_watermark: int, start_offset: int) -> bool:
        """Whether an answer without records or error would contain nothing new."""
        return high_watermark == self.sent_high_watermark and start_offset == self.sent_start_offset

    def must_send(self, answer: PartitionData) -> bool:
        """Whether an answer contains anything new; it counts as sent from now on."""
        new = bool(answer.records)
        if answer.high_watermark != self.sent_high_watermark:
            new = True
            self.sent_high_watermark = answer.high_watermark
        if answer.log_start_offset != self.sent_start_offset:
            new = True
            self.sent_start_offset = answer.log_start_offset
        if answer.error_code:
            new = True
            self.sent_high_watermark = -1  # the end of the trouble is news as well
        return new or answer.preferred_read_replica >= 0 or answer.diverging_epoch is not None


@dataclass(slots=True, kw_only=True)
class FetchSession:
    session_id: int
    principal: Principal
    epoch: int
    by_topic_id: bool
    created_ms: int
    used_ms: int
    evictable: bool = False  # by a larger session; decided at each use
    partitions: dict[PartitionKey, Wanted] = field(default_factory=dict)


class Fetch:
    """One fetch under way. Built per fetch, as `Finished` is: plain slots."""

    __slots__ = ("by_topic_id", "epoch", "opens_session", "principal", "session", "wanted")

    def __init__(
        self,
        wanted: list[Wanted],
        *,
        session: FetchSession | None = None,
        opens_session: bool = False,
        by_topic_id: bool,
        principal: Principal,
    ) -> None:
        self.wanted = wanted
        self.principal = principal
        self.session = session
        self.epoch = EPOCH_NONE if session is None else session.epoch  # after this request
        self.opens_session = opens_session
        self.by_topic_id = by_topic_id


class Finished:
    __slots__ = ("sent", "session_id")

    def __init__(self, session_id: int, sent: list[tuple[Wanted, PartitionData]]) -> None:
        self.session_id = session_id
        self.sent = sent


class FetchSessions:
    """All sessions of a broker. `random_below(n)` gives a number from 0 up to, and without, n."""

    def __init__(
        self,
        *,
        random_below: Callable[[int], int],
        sessions_max: int = limit.FETCH_SESSIONS_MAX,
        partitions_max: int = limit.FETCH_PARTITIONS_MAX,
    ) -> None:
        self.by_id: dict[int, FetchSession] = {}  # in the order of last use
        self.partition_count = 0
        self.evicted_count = 0
        self._random_below = random_below
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max

    def check(self) -> None:
        sessions = list(self.by_id.values())
        assert len(sessions) <= self._sessions_max  # invariant 1
        assert self.partition_count <= self._partitions_max  # invariant 1
        assert self.partition_count == sum(len(session.partitions) for session in sessions)
        used = [session.used_ms for session in sessions]
        assert used == sorted(used)  # invariant 2
        assert all(session.partitions for session in sessions)  # invariant 3

    def begin(
        self,
        request: FetchRequest,
        *,
        by_topic_id: bool,
        now_ms: int,
        principal: Principal = ANONYMOUS,
    ) -> Fetch | ErrorCode:
        """The partitions to read for a request, or the error that ends its session."""
        epoch = request.session_epoch
        if epoch in (EPOCH_NONE, EPOCH_FIRST):
            if request.session_id != NO_SESSION and self._of(request.session_id, principal):
                self._remove(request.session_id)
            return Fetch(
                _all_wanted(request, by_topic_id=by_topic_id),
                opens_session=epoch == EPOCH_FIRST,
                by_topic_id=by_topic_id,
                principal=principal,
            )
        session = self._of(request.session_id, principal)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_topic_id != by_topic_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return self._continue(session, request, now_ms=now_ms)

    def finish(
        self, fetch: Fetch, answers: Sequence[PartitionData | None], *, now_ms: int
    ) -> Finished | ErrorCode:
        """The answers to send; they are in the order of `fetch.wanted`.

        None stands for an answer that was not built, because it `is_sent` already.
        """
        assert len(answers) == len(fetch.wanted), (len(answers), len(fetch.wanted))
        session = fetch.session
        if session is None:
            session_id = NO_SESSION
            sent = [
                (wanted, answer)
                for wanted, answer in zip(fetch.wanted, answers, strict=True)
                if answer is not None
            ]
            assert len(sent) == len(answers), "without a session nothing is told already"
            if fetch.opens_session and sent:
                session_id = self._open(fetch, sent, now_ms=now_ms)
            return Finished(session_id, sent)
        if session.epoch != fetch.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        sent = []
        partitions = session.partitions
        for wanted, answer in zip(fetch.wanted, answers, strict=True):
            if answer is not None and wanted.must_send(answer):
                sent.append((wanted, answer))
                if answer.records:
                    del partitions[wanted.key]
                    partitions[wanted.key] = wanted
        return Finished(session.session_id, sent)

    def _of(self, session_id: int, principal: Principal) -> FetchSession | None:
        """The session, if it is there for this principal (invariant 4)."""
        session = self.by_id.get(session_id)
        if session is None:
            return None
        # On one connection it is the same object: most fetches compare no more than that.
        if session.principal is principal or session.principal == principal:
            return session
        return None

    def _continue(
        self, session: FetchSession, request: FetchRequest, *, now_ms: int
    ) -> Fetch | ErrorCode:
        partitions = session.partitions
        before = len(partitions)
        for topic in request.topics:
            name = topic.topic_id if session.by_topic_id else topic.topic
            for asked in topic.partitions:
                key = (name, asked.partition)
                wanted = partitions.get(key)
                if wanted is None:
                    partitions[key] = Wanted(topic, asked, by_topic_id=session.by_topic_id)
                else:
                    wanted.asked = asked
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if session.by_topic_id else forgotten.topic
            for partition in forgotten.partitions:
                partitions.pop((name, partition), None)
        self.partition_count += len(partitions) - before
        # Before anything can end the session: a fetch that still waits in it must find out.
        session.epoch = next_epoch(session.epoch)
        if not partitions:
            self._remove(session.session_id)
            return Fetch(
                _all_wanted(request, by_topic_id=session.by_topic_id),
                by_topic_id=session.by_topic_id,
                principal=session.principal,
            )
        if self.partition_count > self._partitions_max:
            # Its fetcher opens a new one, and is then served without a session.
            self._remove(session.session_id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._touch(session, now_ms=now_ms)
        return Fetch(
            list(partitions.values()),
            session=session,
            by_topic_id=session.by_topic_id,
            principal=session.principal,
        )

    def _open(
        self, fetch: Fetch, sent: Sequence[tuple[Wanted, PartitionData]], *, now_ms: int
    ) -> int:
        partitions = {wanted.key: wanted for wanted, _ in sent}
        if not self._make_room(len(partitions), now_ms=now_ms):
            return NO_SESSION
        for wanted, answer in sent:
            wanted.sent_high_watermark = answer.high_watermark
            wanted.sent_start_offset = answer.log_start_offset
        session = FetchSession(
            session_id=self._unused_id(),
            principal=fetch.principal,
            epoch=next_epoch(EPOCH_FIRST),
            by_topic_id=fetch.by_topic_id,
            created_ms=now_ms,
            used_ms=now_ms,
            partitions=partitions,
        )
        self.partition_count += len(partitions)
        self._touch(session, now_ms=now_ms)
        return session.session_id

    def _make_room(self, size: int, *, now_ms: int) -> bool:
        """Whether a session of `size` partitions fits: stale ones make room, then a lesser one."""
        if size > self._partitions_max:
            return False
        self._evict_stale(size, now_ms=now_ms)
        if self.partition_count + size > self._partitions_max:
            return False
        if len(self.by_id) >= self._sessions_max:
            victim = self._lesser_than(size)
            if victim is None:
                return False
            self._evict(victim)
        return True

    def _evict_stale(self, size: int, *, now_ms: int) -> None:
        """As many as stand in the way of a session of `size` partitions, the oldest first."""
        while (
            len(self.by_id) >= self._sessions_max
            or self.partition_count + size > self._partitions_max
        ):
            oldest = next(iter(self.by_id.values()), None)
            if oldest is None or now_ms - oldest.used_ms <= EVICTION_MS:
                return
            self._evict(oldest)

    def _lesser_than(self, size: int) -> FetchSession | None:
        # A walk over at most `sessions_max`, and only when the cache is full of sessions in use.
        least = min(
            (session for session in self.by_id.values() if session.evictable),
            key=_worth,
            default=None,
        )
        if least is None or (size, NO_SESSION) < _worth(least):
            return None
        return least

    def _evict(self, session: FetchSession) -> None:
        self._remove(session.session_id)
        self.evicted_count += 1

    def _touch(self, session: FetchSession, *, now_ms: int) -> None:
        self.by_id.pop(session.session_id, None)
        session.used_ms = now_ms
        session.evictable = now_ms - session.created_ms > EVICTION_MS
        self.by_id[session.session_id] = session

    def _remove(self, session_id: int) -> None:
        session = self.by_id.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.partitions)

    def _unused_id(self) -> int:
        # At most `sessions_max` of 2^31 ids are taken, so this ends at once.
        while True:
            session_id = 1 + self._random_below(EPOCH_MAX)
            if session_id not in self.by_id:
                return session_id


def next_epoch(epoch: int) -> int:
    """1, 2, ..., and 1 again after the largest number: 0 would open a new session."""
    assert epoch >= 0, epoch
    return 1 if epoch == EPOCH_MAX else epoch + 1


def _all_wanted(request: FetchRequest, *, by_topic_id: bool) -> list[Wanted]:
    # Of a partition named twice the last word counts, as in Kafka.
    return list(
        {
            wanted.key: wanted
            for topic in request.topics
            for asked in topic.partitions
            if (wanted := Wanted(topic, asked, by_topic_id=by_topic_id))
        }.values()
    )


def _worth(session: FetchSession) -> tuple[int, int]:
    return (len(session.partitions), session.session_id)
