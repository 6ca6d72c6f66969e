"""Fetches of followers: whole batches up to the end of the log, and news of watermark and start.

Differs from what consumers get: a follower reads beyond the high watermark, its fetch tells how far
it is (which moves the watermark and releases acks), and its session knows which partitions have
anything to tell (`replication/follower_session`). A fetch that waits is a pending reply, not a
task. Who may fetch, and which error says what, is as in Apache Kafka:

    leader epoch of the fetch is older, newer      FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH
    the node is no replica                         UNKNOWN_LEADER_EPOCH, since it may be one soon;
                                                   without an epoch NOT_LEADER_OR_FOLLOWER
    another broker epoch than the registered one   NOT_LEADER_OR_FOLLOWER; Kafka takes a later one,
                                                   and none at all: see `Partition.check_follower`
    its log does not agree with this one           where it has to truncate to; nothing is noted
    its offset is not in this log                  OFFSET_OUT_OF_RANGE; nothing is noted
"""

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Final

from penstock.broker.request.fetch_answers import EMPTY, diverged, failed, name_leaders
from penstock.broker.request.pending_reply import PendingReply, when_filled
from penstock.broker.request.services import RequestContext, Services
from penstock.log.errors import CorruptData
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.limit import ENTRIES_PER_TURN
from penstock.replication.fetch_session import EPOCH_FIRST, EPOCH_NONE, NO_SESSION
from penstock.replication.follower_session import Followed, FollowerSession, FollowerSessions
from penstock.replication.partition import Partition
from penstock.wire.header import RequestHeader, encode_response
from penstock.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from penstock.world.errors import DiskError
from penstock.world.ports import FileRange

TOPIC_IDS_FROM: Final = 13
NO_BROKER_EPOCH: Final = -1
CONSUMER: Final = -1


def follower_of(request: FetchRequest) -> NodeId | None:
    """The node that fetches as a follower; None when a consumer does."""
    state = request.replica_state
    if state is not None and state.replica_id > CONSUMER:
        return NodeId(state.replica_id)
    return NodeId(request.replica_id) if request.replica_id > CONSUMER else None


def serve_follower(
    services: Services, request: FetchRequest, context: RequestContext, node: NodeId
) -> FetchResponse | PendingReply | Awaitable[FetchResponse]:
    version = context.header.api_version
    sessions = services.follower_sessions
    fetch = FollowerFetch(services, request, context, node)
    if not fetch.is_of_registered_process and request.session_epoch not in (
        EPOCH_NONE,
        EPOCH_FIRST,
    ):
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    session = sessions.begin(request, node, by_topic_id=version >= TOPIC_IDS_FROM)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    fetch.session = session
    session.fetched_ms = context.received_ms
    session.forget(request)
    if sum(len(topic.partitions) for topic in request.topics) > ENTRIES_PER_TURN:
        return _by_turns(fetch, request)
    for topic in request.topics:
        for asked in topic.partitions:
            fetch.note(session.name(topic, asked))
    return fetch.answer_or_wait(request)


async def _by_turns(fetch: "FollowerFetch", request: FetchRequest) -> FetchResponse:
    """Many partitions are named: the loop gets its turn between some hundred and the next. When the
    session is closed meanwhile, nothing more is noted in it: nobody would take that back.
    """
    count = 0
    session = fetch.session
    session.is_noting = True
    try:
        for topic in request.topics:
            for asked in topic.partitions:
                fetch.note(session.name(topic, asked))
                count += 1
                if count % ENTRIES_PER_TURN == 0:
                    await asyncio.sleep(0)
                    if session.is_closed:
                        return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        response = fetch.answer_or_wait(request, encoded=False)
    except asyncio.CancelledError:
        fetch.sessions.give_up(session)
        raise
    finally:
        session.is_noting = False
    if isinstance(response, FollowerFetch):
        await when_filled(response)
        response = response.response
    return response


class FollowerFetch(PendingReply):
    """One fetch of a follower; the reply to it, if that must wait."""

    __slots__ = (
        "_broker_epoch",
        "_bytes_max",
        "_bytes_min",
        "_header",
        "_is_due",
        "_is_encoded",
        "_is_woken",
        "_listener",
        "_node",
        "_received_ms",
        "_registered_epoch",
        "_services",
        "_timer",
        "response",
        "session",
        "sessions",
    )

    session: FollowerSession

    def __init__(
        self, services: Services, request: FetchRequest, context: RequestContext, node: NodeId
    ) -> None:
        super().__init__()
        self.response = FetchResponse()
        self.sessions: FollowerSessions = services.follower_sessions
        self._services = services
        self._node = node
        state = request.replica_state
        self._broker_epoch = NO_BROKER_EPOCH if state is None else state.replica_epoch
        registered = services.image.brokers.get(node)
        self._registered_epoch = NO_BROKER_EPOCH if registered is None else registered.epoch
        self._bytes_max = max(min(request.max_bytes, services.settings.fetch_max_bytes), 0)
        self._bytes_min = min(request.min_bytes, self._bytes_max)
        self._header: RequestHeader = context.header
        self._listener = context.listener
        self._received_ms = context.received_ms
        self._timer: asyncio.TimerHandle | None = None
        self._is_encoded = True
        self._is_woken = False
        self._is_due = False

    @property
    def is_of_registered_process(self) -> bool:
        """Whether the node is registered with this broker epoch. Nobody else has a session, or ends
        that of the node.
        """
        return NO_BROKER_EPOCH != self._broker_epoch == self._registered_epoch

    def note(self, followed: Followed) -> None:
        """The follower is where the fetch says, in a partition that is named or was, and has
        something.
        """
        if not self._find(followed):
            return
        partition = followed.partition
        assert partition is not None
        followed.note_behind()
        start_offset = followed.asked.log_start_offset
        if partition.follower_fetched(
            self._node,
            offset=followed.offset,
            broker_epoch=self._broker_epoch,
            log_start_offset=start_offset,
            now_ms=self._received_ms,
        ):
            changes = self._services.in_sync_changes
            if changes is not None:
                changes.want(partition)
        if start_offset != followed.own_start_offset:
            followed.own_start_offset = start_offset
            partition.start_moved()

    def answer_or_wait(
        self, request: FetchRequest, *, encoded: bool = True
    ) -> "FetchResponse | FollowerFetch":
        """`encoded`: the reply that waits is sent as it is filled."""
        session = self.session
        is_first = request.session_epoch == EPOCH_FIRST
        if is_first and session.partitions and self.is_of_registered_process:
            random_below = self._services.world.entropy.random_below
            self.sessions.opened(session, random_below=random_below)
        if session.session_id != NO_SESSION and not is_first:
            self._look_again(request)
        wait_ms = request.max_wait_ms - (
            self._services.world.clock.monotonic_ms() - self._received_ms
        )
        # A follower that gets no session would ask again and again if no reply waited.
        is_opened = is_first and session.session_id != NO_SESSION
        self._is_due = wait_ms <= 0 or is_opened or not session.partitions
        self._is_encoded = encoded
        if (self._is_due or session.behind_count or session.is_urgent) and self._try_answer():
            return self.response
        session.poll = self
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._time_is_up)
        return self

    def wake(self) -> None:
        if not self._is_woken and self.line is not None:
            self._is_woken = True
            self.line.call_soon(self._go_on)

    def supersede(self) -> None:
        self.response = FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self._finish()

    def abandon(self) -> None:
        super().abandon()
        if not self.is_filled:
            self._stop()
            self.sessions.give_up(self.session)

    def _time_is_up(self) -> None:
        self._is_due = True
        self.wake()

    def _go_on(self) -> None:
        self._is_woken = False
        if self.session.poll is self and self._try_answer():
            self._finish()

    def _finish(self) -> None:
        self._stop()
        header = self._header
        if self._is_encoded:
            self.fill(encode_response(header.correlation_id, self.response, header.api_version))
        else:
            self.fill([])

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.session.poll is self:
            self.session.poll = None

    def _look_again(self, request: FetchRequest) -> None:
        """A fetch speaks for partitions too that it does not name: they are where they were. Those
        without news are at the end of their logs, as the session knows.
        """
        session = self.session
        if session.behind_count:
            named = {
                (topic.topic_id if session.by_topic_id else topic.topic, asked.partition)
                for topic in request.topics
                for asked in topic.partitions
            }
            for followed in tuple(session.news):
                if followed.is_behind and followed.key not in named:
                    self.note(followed)
        for followed in tuple(session.failed):
            # What stood in the way may have gone; whether or not, it is told with the next reply.
            urgent, session.is_urgent = session.is_urgent, False
            self.note(followed)
            session.is_urgent = urgent

    def _find(self, followed: Followed) -> bool:
        """Whether the partition can be read for the follower; if not, the failure is news."""
        session = self.session
        found = self._check(followed)
        session.failed.pop(followed, None)
        if isinstance(found, Partition):
            followed.failure = None
            followed.serve(found)
            if followed.sent_high_watermark != found.high_watermark:
                followed.note_news()
            if found.log.end_offset > followed.offset:
                followed.note_news()
            return True
        followed.serve(None)
        followed.note_behind()
        followed.failure = found
        followed.note_news()
        session.is_urgent = True
        return False

    def _check(self, followed: Followed) -> Partition | PartitionData:
        """The partition, or what its follower is told instead."""
        asked = followed.asked
        index = asked.partition
        partitions = self._services.partitions
        if self.session.by_topic_id:
            found = partitions.find_by_id(followed.topic_id, index)
        else:
            found = partitions.find(followed.topic, index)
        if not isinstance(found, Partition):
            return failed(index, found)
        followed.topic = found.name.topic
        code = found.check_follower(
            self._node,
            leader_epoch=asked.current_leader_epoch,
            broker_epoch=self._broker_epoch,
            registered_epoch=self._registered_epoch,
        )
        if code is not ErrorCode.NONE:
            return failed(index, code)
        if asked.last_fetched_epoch >= 0 and (where := diverged(found, asked)) is not None:
            return where
        if not found.has_offset(asked.fetch_offset):
            return failed(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        return found

    def _try_answer(self) -> bool:
        """Reads what there is, and answers if that is enough."""
        session = self.session
        answers: list[tuple[Followed, PartitionData]] = []
        byte_count = 0
        unread: deque[Followed] = deque()
        is_urgent = session.is_urgent
        # The first reply of a session names all its partitions; others the first so many.
        count_max = ENTRIES_PER_TURN if session.epoch > 1 else len(session.partitions)
        for followed in session.news:
            if len(answers) >= count_max:
                unread.append(followed)
                continue
            answer = self._read(followed, bytes_left=self._bytes_max - byte_count)
            if answer is None:
                if followed.is_behind:
                    unread.append(followed)  # the reply is full
                else:
                    followed.is_news = False
                continue
            answers.append((followed, answer))
            is_urgent = is_urgent or answer.error_code != ErrorCode.NONE
            records = answer.records
            if isinstance(records, FileRange):
                byte_count += records.byte_count
        if not self._is_due and not is_urgent and byte_count < self._bytes_min:
            session.news = deque((*(followed for followed, _ in answers), *unread))
            return False
        session.news = unread
        session.is_urgent = any(followed.failure is not None for followed in unread)
        self._tell(answers)
        return True

    def _read(self, followed: Followed, *, bytes_left: int) -> PartitionData | None:
        """What is new to the follower; None when nothing is, or there is no room for it."""
        if followed.partition is None and followed.failure is None:
            self._find(followed)  # it was led, and is not, or in another epoch
        if followed.failure is not None:
            return followed.failure
        partition = followed.partition
        assert partition is not None
        asked = followed.asked
        followed.note_behind()
        start_offset = partition.log.start_offset
        if followed.offset < start_offset:
            return failed(asked.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        found = None
        if followed.is_behind:
            try:
                found = partition.read_for_follower(
                    followed.offset,
                    size_bytes_max=max(min(asked.partition_max_bytes, bytes_left), 0),
                    oversized_first=bytes_left == self._bytes_max,
                )
            except CorruptData as damage:
                self._services.partitions.damage_found(partition, damage)
                return failed(asked.partition, ErrorCode.CORRUPT_MESSAGE)
            except DiskError:
                return failed(asked.partition, ErrorCode.KAFKA_STORAGE_ERROR)
            if (found is None or found.span is None) and bytes_left < self._bytes_max:
                return None
        high_watermark = partition.high_watermark
        if (found is None or found.span is None) and followed.is_sent(
            high_watermark=high_watermark, start_offset=start_offset
        ):
            return None
        return PartitionData(
            partition_index=asked.partition,
            high_watermark=high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=start_offset,
            aborted_transactions=None,
            records=EMPTY if found is None or found.span is None else found.span,
        )

    def _tell(self, answers: list[tuple[Followed, PartitionData]]) -> None:
        """What is told counts as known. What has records comes last the next time."""
        session = self.session
        response = self.response
        response.session_id = session.session_id
        topic: FetchableTopicResponse | None = None
        key: bytes | str = EMPTY
        has_failed = False
        for followed, answer in answers:
            if answer.error_code != ErrorCode.NONE or answer.diverging_epoch is not None:
                has_failed = True
                session.failed[followed] = None
                followed.sent_high_watermark = -1
                followed.is_news = False
            else:
                followed.sent_high_watermark = answer.high_watermark
                followed.sent_start_offset = answer.log_start_offset
                if followed.is_behind:
                    session.news.append(followed)
                else:
                    followed.is_news = False
            if topic is None or followed.key[0] != key:
                key = followed.key[0]
                topic = FetchableTopicResponse(topic=followed.topic, topic_id=followed.topic_id)
                response.responses.append(topic)
            topic.partitions.append(answer)
        if has_failed:
            name_leaders(
                self._services,
                response,
                version=self._header.api_version,
                listener=self._listener,
            )
        if session.session_id == NO_SESSION:
            session.poll = None
            session.close()
