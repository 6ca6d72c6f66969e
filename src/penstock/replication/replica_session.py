"""The follower's end of one incremental fetch session (KIP-227): what a fetch has to name.

The leader remembers the position of each partition of the session, so a request names only those
that are new or have moved, and those that it is to forget:

    want(partition, position)       it is fetched from there on
    leave_out(partition)            it is not fetched for now
    next_request()                  the difference to what the leader knows
    next_positions()                the same in its commonest form, to be encoded at once
    replied(response)               whether the answers in it are of use
    asked(partition)                the position that an answer is about

A request costs what has changed since the last one, whatever the size of the session. While one
waits at the leader for records, the next may be sent to end that wait (`may_interrupt`): the leader
replies to the first without answers, or with answers for positions that the second has replaced.
Their records are not ours to append any more, but the leader takes their watermark and start to be
known: so `asked` says which position they are about (`Follower.take` makes of it what holds).

Invariants:
 1. What is wanted and not known to the leader at its position is to be named; nothing else is.
 2. What is known to the leader and not wanted is to be forgotten; nothing else is.
 3. At most two requests are outstanding.
"""

from collections.abc import Iterable
from typing import Final

from penstock.model.error import ErrorCode
from penstock.model.identity import TopicId
from penstock.replication.fetch_session import EPOCH_FIRST, NO_SESSION, next_epoch
from penstock.replication.follower import Position
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from penstock.wire.replica_fetch import ReplicaReply, encode_position

PartitionId = tuple[TopicId, int]

OUTSTANDING_MAX: Final = 2
SESSION_LOST: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class Positions:
    """What a request names, encoded (`wire/replica_fetch`), by topic id."""

    __slots__ = ("session_epoch", "session_id", "topics")

    def __init__(
        self, session_id: int, session_epoch: int, topics: dict[bytes, list[bytes]]
    ) -> None:
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics


class ReplicaSession:
    """One for each leader node that this one follows."""

    __slots__ = (
        "_epoch",
        "_forgotten",
        "_named",
        "_outstanding",
        "_refused",
        "_session_id",
        "_stale_id",
        "_superseded",
        "_wanted",
        "known",
    )

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._stale_id = NO_SESSION  # of a session that the next one replaces
        self._epoch = EPOCH_FIRST
        self._refused = False  # whether the leader has no room for a session
        self._outstanding = 0
        self._wanted: dict[PartitionId, Position] = {}
        self.known: dict[PartitionId, Position] = {}  # to the leader
        self._named: dict[PartitionId, None] = {}  # by the next request
        self._forgotten: dict[PartitionId, None] = {}  # by the next request
        # Named or forgotten while a request was outstanding: the positions that its answers are
        # about. None: it has none, or what it says of them will be said again.
        self._superseded: dict[PartitionId, Position | None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is wanted."""
        return not self._wanted

    @property
    def outstanding(self) -> int:
        """Requests whose replies are still to come."""
        return self._outstanding

    @property
    def has_news(self) -> bool:
        """Whether the next request tells the leader anything."""
        return bool(self._named or self._forgotten)

    @property
    def may_wait(self) -> bool:
        """Whether the leader may hold back the reply to the next request. Not to the one that opens
        the session: until it is open, a wait cannot be ended.
        """
        return self._session_id != NO_SESSION or self._refused

    @property
    def may_interrupt(self) -> bool:
        """Whether a request can be sent while another one waits at the leader."""
        return self._session_id != NO_SESSION and self._outstanding < OUTSTANDING_MAX

    def asked(self, partition: PartitionId) -> Position | None:
        """The position that an answer of the last reply is about; None: it is not to be taken."""
        if partition in self._superseded:
            return self._superseded[partition]
        return self.known.get(partition)

    def check(self) -> None:
        for partition, position in self._wanted.items():
            is_known = self.known.get(partition) == position
            assert is_known != (partition in self._named), "invariant 1"
        assert self._named.keys() <= self._wanted.keys(), "invariant 1"
        assert self._forgotten.keys() == self.known.keys() - self._wanted.keys(), "invariant 2"
        assert 0 <= self._outstanding <= OUTSTANDING_MAX, "invariant 3"

    def want(self, partition: PartitionId, position: Position) -> None:
        self._wanted[partition] = position
        if self._forgotten:
            self._forgotten.pop(partition, None)
        if self.known.get(partition) == position:
            self._named.pop(partition, None)
        else:
            self._named[partition] = None

    def leave_out(self, partition: PartitionId) -> None:
        if self._wanted.pop(partition, None) is None:
            return
        self._named.pop(partition, None)
        if partition in self.known:
            self._forgotten[partition] = None

    def next_request(self, *, partition_bytes_max: int) -> FetchRequest:
        """What the leader is to know; from here on it is taken to know it."""
        assert self._outstanding < OUTSTANDING_MAX
        is_full = self._session_id == NO_SESSION
        named = list(self._wanted if is_full else self._named)
        request = FetchRequest(
            session_id=self._stale_id if is_full else self._session_id,
            session_epoch=self._epoch,
            topics=self._topics(named, partition_bytes_max),
            forgotten_topics_data=[] if is_full else _by_topic(self._forgotten),
        )
        self._request_leaves(named)
        if not is_full:
            self._epoch = next_epoch(self._epoch)
        return request

    def next_positions(self, *, partition_bytes_max: int) -> Positions | None:
        """As `next_request`, for a session that is open, when nothing is to be forgotten; None
        otherwise, and nothing has changed.
        """
        if self._session_id == NO_SESSION or self._forgotten:
            return None
        assert self._outstanding < OUTSTANDING_MAX
        topics: dict[bytes, list[bytes]] = {}
        named = list(self._named)
        for partition in named:
            topic_id, index = partition
            positions = topics.get(topic_id)
            if positions is None:
                positions = topics[topic_id] = []
            position = self._wanted[partition]
            positions.append(
                encode_position(
                    index=index,
                    leader_epoch=position.leader_epoch,
                    offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_bytes_max=partition_bytes_max,
                )
            )
        self._request_leaves(named)
        epoch = self._epoch
        self._epoch = next_epoch(epoch)
        return Positions(self._session_id, epoch, topics)

    def replied(self, response: FetchResponse | ReplicaReply) -> bool:
        """The reply to the oldest request. Whether its answers are to be looked at; when the last
        one has been, `taken` is called.
        """
        assert self._outstanding > 0
        self._outstanding -= 1
        if isinstance(response, ReplicaReply) or response.error_code == ErrorCode.NONE:
            if self._session_id == NO_SESSION and self._epoch == EPOCH_FIRST:
                self._opened(response.session_id)
            return True
        is_interrupted = (
            self._outstanding > 0 and response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        )
        if is_interrupted:
            self._superseded.clear()  # it has no answers; those of the next reply are of use
        else:
            self.restart()
        return False

    def taken(self, with_records: Iterable[PartitionId] = ()) -> None:
        """All answers of the reply have been looked at. Without a session the order of partitions
        is ours to keep fair: those that had records are asked for last.
        """
        self._superseded.clear()
        if self._session_id == NO_SESSION:
            for partition in with_records:
                position = self._wanted.pop(partition, None)
                if position is not None:
                    self._wanted[partition] = position

    def restart(self) -> None:
        """The leader has lost the session, or nobody knows what it knows: it is told everything
        again, and to give up the session that it may still have.
        """
        if self._session_id != NO_SESSION:
            self._stale_id = self._session_id
        self._session_id = NO_SESSION
        self._epoch = EPOCH_FIRST
        self.known.clear()
        self._forgotten.clear()
        self._superseded.clear()
        self._named = dict.fromkeys(self._wanted)

    def reconnected(self) -> None:
        """Nothing is outstanding on a new connection."""
        self._outstanding = 0
        self.restart()

    def _request_leaves(self, named: Iterable[PartitionId]) -> None:
        """From here on the leader is taken to know what the request says."""
        if self._outstanding:
            for partition in self._named:
                self._superseded[partition] = self.known.get(partition)
            # The leader knows nothing of them any more: it tells all when they are named again.
            self._superseded.update(dict.fromkeys(self._forgotten))
        for partition in self._forgotten:
            del self.known[partition]
        for partition in named:
            self.known[partition] = self._wanted[partition]
        self._named.clear()
        self._forgotten.clear()
        self._outstanding += 1

    def _opened(self, session_id: int) -> None:
        self._stale_id = NO_SESSION
        self._session_id = session_id
        self._refused = session_id == NO_SESSION
        if session_id != NO_SESSION:
            self._epoch = next_epoch(EPOCH_FIRST)

    def _topics(self, named: Iterable[PartitionId], bytes_max: int) -> list[FetchTopic]:
        topics: dict[TopicId, FetchTopic] = {}
        for partition in named:
            topic_id, index = partition
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
            position = self._wanted[partition]
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=bytes_max,
                )
            )
        return list(topics.values())


def _by_topic(partitions: Iterable[PartitionId]) -> list[ForgottenTopic]:
    topics: dict[TopicId, ForgottenTopic] = {}
    for topic_id, index in partitions:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ForgottenTopic(topic_id=topic_id)
        topic.partitions.append(index)
    return list(topics.values())
