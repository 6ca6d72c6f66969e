"""The fetch session of a follower, as its leader's node keeps it (KIP-227): no partition that has
nothing to tell costs anything in a fetch.

A follower has one session with each node that leads partitions of it. The session observes these
partitions, and keeps those that have something to tell in `news`: records, or a high watermark or
start that the follower does not know. A fetch looks at these alone. Each fetch says of all
partitions of its session where the follower is: a partition that is not named is where it was.

    records       wake a fetch that waits
    start         likewise: who deletes records waits until all replicas have
    watermark     waits for the next reply: what followers do with it hurries nobody

Sessions are bounded by the number of brokers, and each by FETCH_PARTITIONS_MAX. A new session of a
node replaces the one before, and one whose connection breaks while a fetch waits is given up. A
fetch that names many partitions is noted by turns: if another one comes meanwhile, the session is
closed, because the rest of the positions would never be known here. The follower opens a new one.

Invariants:
 1. `partitions` contains every partition by its key; those that are served here are observed.
 2. A partition is in `news` once, if its `is_news` says so, and not at all otherwise.
 3. `behind_count` counts partitions whose log goes beyond what the follower has.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.model.limit import FETCH_PARTITIONS_MAX
from penstock.model.offset import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from penstock.replication.fetch_session import (
    EPOCH_FIRST,
    EPOCH_MAX,
    EPOCH_NONE,
    NO_SESSION,
    PartitionKey,
    next_epoch,
)
from penstock.replication.partition import Partition
from penstock.replication.replica import Replica
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from penstock.wire.replica_fetch import NamedPosition

NO_HIGH_WATERMARK: Final = -1


class Poll(Protocol):
    """A fetch of the session that waits."""

    ends_ms: int  # when it is answered with what there is, at the latest

    def wake(self) -> None:
        """There may be enough to answer it."""

    def supersede(self) -> None:
        """Another fetch of the session has come."""

    def time_is_up(self) -> None:
        """It is answered with what there is."""


class Alarm(Protocol):
    """Ends the wait of the session's fetches in time."""

    def cancel(self) -> None: ...


class Followed:
    """One partition in a session, and what its follower knows of it. An observer of it."""

    __slots__ = (
        "bytes_max",
        "failure",
        "index",
        "is_behind",
        "is_news",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "offset",
        "own_start_offset",
        "partition",
        "sent_high_watermark",
        "sent_start_offset",
        "session",
        "topic",
        "topic_id",
    )

    def __init__(
        self, session: "FollowerSession", key: PartitionKey, *, topic: str, topic_id: TopicId
    ) -> None:
        """A fetch has named it: `ask` follows."""
        self.session = session
        self.topic = topic
        self.topic_id = topic_id
        self.key = key
        self.index = key[1]
        # What the last fetch that named it says.
        self.offset = Offset(0)
        self.leader_epoch = NO_LEADER_EPOCH
        self.last_fetched_epoch = NO_LEADER_EPOCH
        self.log_start_offset: int = NO_OFFSET
        self.bytes_max = 0
        self.own_start_offset: int = NO_OFFSET  # of the follower's log
        self.partition: Partition | None = None  # None: not served here, as far as is known
        self.failure: PartitionData | None = None  # why it cannot be read, once told
        self.sent_high_watermark = NO_HIGH_WATERMARK
        self.sent_start_offset: int = NO_OFFSET
        self.is_news = False
        self.is_behind = False

    def ask(
        self,
        *,
        offset: int,
        leader_epoch: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        bytes_max: int,
    ) -> None:
        self.offset = Offset(offset)
        if leader_epoch != self.leader_epoch:
            # A reply that it got after it had changed the epoch it has dropped.
            self.leader_epoch = LeaderEpoch(leader_epoch)
            self.sent_high_watermark = NO_HIGH_WATERMARK
            self.sent_start_offset = NO_OFFSET
        self.last_fetched_epoch = LeaderEpoch(last_fetched_epoch)
        self.log_start_offset = log_start_offset
        self.bytes_max = bytes_max

    def serve(self, partition: Partition | None) -> None:
        """From now on the partition is observed; None: nothing is."""
        before = self.partition
        if before is partition:
            return
        if before is not None:
            before.observers.pop(self, None)
        self.partition = partition
        if partition is not None:
            partition.observers[self] = None

    def note_behind(self) -> None:
        """Sets `is_behind` to what is the case."""
        partition = self.partition
        is_behind = partition is not None and partition.log.end_offset > self.offset
        if is_behind != self.is_behind:
            self.is_behind = is_behind
            self.session.behind_count += 1 if is_behind else -1

    def note_news(self) -> None:
        if not self.is_news:
            self.is_news = True
            self.session.news.append(self)

    def is_sent(self, *, high_watermark: int, start_offset: int) -> bool:
        """Whether an answer without records would contain nothing new."""
        return high_watermark == self.sent_high_watermark and start_offset == self.sent_start_offset

    def advanced(self, partition: Replica, byte_count: int) -> None:
        self.note_news()
        log = partition.log
        session = self.session
        if log.end_offset > self.offset:
            if not self.is_behind:
                self.is_behind = True
                session.behind_count += 1
                served = self.partition
                assert served is not None, "who observes nothing is not notified"
                # Until now it had everything, as of each fetch of the session.
                served.follower_was_caught_up(session.node, now_ms=session.fetched_ms)
            session.wake()
        elif NO_OFFSET != self.sent_start_offset != log.start_offset:
            session.is_urgent = True
            session.wake()

    def ended(self, partition: Replica) -> None:
        """What was known of it is old: the next look finds out what became of it."""
        self.partition = None
        self.failure = None
        self.note_behind()
        self.note_news()
        self.session.is_urgent = True
        self.session.wake()


class FollowerSession:
    """See the module's invariants."""

    __slots__ = (
        "alarm",
        "behind_count",
        "by_topic_id",
        "epoch",
        "failed",
        "fetched_ms",
        "is_closed",
        "is_noting",
        "is_urgent",
        "news",
        "node",
        "partitions",
        "poll",
        "session_id",
    )

    def __init__(self, node: NodeId, *, by_topic_id: bool) -> None:
        self.node = node
        self.by_topic_id = by_topic_id
        self.session_id = NO_SESSION
        self.epoch = EPOCH_FIRST
        self.partitions: dict[PartitionKey, Followed] = {}
        self.news: deque[Followed] = deque()
        self.failed: dict[Followed, None] = {}  # those that could not be read, as was told
        self.behind_count = 0
        self.is_urgent = False  # there is news that a fetch does not wait with
        self.fetched_ms = 0  # when the last fetch came
        self.is_noting = False  # what a fetch names is being noted, by turns
        self.is_closed = False
        self.poll: Poll | None = None
        self.alarm: Alarm | None = None

    def check(self) -> None:
        for key, followed in self.partitions.items():
            assert followed.key == key  # invariant 1
            if followed.partition is not None:
                assert followed in followed.partition.observers  # invariant 1
        assert len(set(self.news)) == len(self.news)  # invariant 2
        in_news = set(self.news)
        for followed in self.partitions.values():
            assert followed.is_news == (followed in in_news)  # invariant 2
        behind = [followed for followed in self.partitions.values() if followed.is_behind]
        assert len(behind) == self.behind_count  # invariant 3
        for followed in behind:
            assert followed.partition is not None  # invariant 3
            assert followed.partition.log.end_offset > followed.offset  # invariant 3

    def wake(self) -> None:
        if self.poll is not None:
            self.poll.wake()

    def has_room(self, request: FetchRequest) -> bool:
        """Whether the partitions that a fetch names can be added."""
        size = len(self.partitions)
        if size + sum(len(topic.partitions) for topic in request.topics) <= FETCH_PARTITIONS_MAX:
            return True
        named = {
            (topic.topic_id if self.by_topic_id else topic.topic, asked.partition)
            for topic in request.topics
            for asked in topic.partitions
        }
        return len(self.partitions.keys() | named) <= FETCH_PARTITIONS_MAX

    def name(self, topic: FetchTopic, asked: FetchPartition) -> Followed:
        """The follower says where it is in a partition."""
        key = (topic.topic_id if self.by_topic_id else topic.topic, asked.partition)
        followed = self.partitions.get(key)
        if followed is None:
            followed = self.partitions[key] = Followed(
                self, key, topic=topic.topic, topic_id=TopicId(topic.topic_id)
            )
        followed.ask(
            offset=asked.fetch_offset,
            leader_epoch=asked.current_leader_epoch,
            last_fetched_epoch=asked.last_fetched_epoch,
            log_start_offset=asked.log_start_offset,
            bytes_max=asked.partition_max_bytes,
        )
        return followed

    def name_position(self, named: NamedPosition) -> Followed:
        """The same, as it was read from a request that names topics by id."""
        assert self.by_topic_id
        key = (named.topic_id, named.index)
        followed = self.partitions.get(key)
        if followed is None:
            followed = self.partitions[key] = Followed(
                self, key, topic="", topic_id=TopicId(named.topic_id)
            )
        followed.ask(
            offset=named.offset,
            leader_epoch=named.leader_epoch,
            last_fetched_epoch=named.last_fetched_epoch,
            log_start_offset=named.log_start_offset,
            bytes_max=named.partition_bytes_max,
        )
        return followed

    def forget(self, request: FetchRequest) -> None:
        """Drops what the follower does not want any more."""
        is_in_news = False
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if self.by_topic_id else forgotten.topic
            for index in forgotten.partitions:
                followed = self.partitions.pop((name, index), None)
                if followed is not None:
                    is_in_news = is_in_news or followed.is_news
                    self._drop(followed)
        if is_in_news:
            self.news = deque(one for one in self.news if one.is_news)

    def close(self) -> None:
        """Nothing is observed any more."""
        self.is_closed = True
        for followed in self.partitions.values():
            self._drop(followed)
        self.partitions.clear()
        self.news.clear()
        alarm, self.alarm = self.alarm, None
        if alarm is not None:
            alarm.cancel()
        poll, self.poll = self.poll, None
        if poll is not None:
            poll.supersede()

    def _drop(self, followed: Followed) -> None:
        followed.serve(None)
        followed.note_behind()
        followed.is_news = False
        self.failed.pop(followed, None)


class FollowerSessions:
    """The sessions of all followers with this node."""

    def __init__(self) -> None:
        self.by_node: dict[NodeId, FollowerSession] = {}

    def check(self) -> None:
        for node, session in self.by_node.items():
            assert session.node == node
            session.check()

    def begin(
        self, request: FetchRequest, node: NodeId, *, by_topic_id: bool
    ) -> FollowerSession | ErrorCode:
        """The session that a fetch continues or opens, or the error that ends it.

        One that is opened is known from `opened` on.
        """
        epoch = request.session_epoch
        if epoch in (EPOCH_NONE, EPOCH_FIRST):
            return FollowerSession(node, by_topic_id=by_topic_id)
        return self.continued(
            node,
            session_id=request.session_id,
            epoch=epoch,
            by_topic_id=by_topic_id,
            request=request,
        )

    def continued(
        self,
        node: NodeId,
        *,
        session_id: int,
        epoch: int,
        by_topic_id: bool,
        request: FetchRequest | None = None,
    ) -> FollowerSession | ErrorCode:
        """The session that a fetch continues. Without a request there is room for what it names."""
        session = self.by_node.get(node)
        if session is None or session.session_id != session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_topic_id != by_topic_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if session.is_noting:
            self.close(node)
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if request is not None and not session.has_room(request):
            self.close(node)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        session.epoch = next_epoch(epoch)
        poll, session.poll = session.poll, None
        if poll is not None:
            poll.supersede()
        return session

    def opened(self, session: FollowerSession, *, random_below: Callable[[int], int]) -> None:
        """The session takes the place of an older one of its node. Its id is a random number: one
        that an earlier process gave out is not taken for it.
        """
        self.close(session.node)
        session.session_id = 1 + random_below(EPOCH_MAX)
        session.epoch = next_epoch(EPOCH_FIRST)
        self.by_node[session.node] = session

    def close(self, node: NodeId) -> None:
        session = self.by_node.pop(node, None)
        if session is not None:
            session.close()

    def give_up(self, session: FollowerSession) -> None:
        """Nobody will continue this session."""
        if self.by_node.get(session.node) is session:
            del self.by_node[session.node]
        session.close()
