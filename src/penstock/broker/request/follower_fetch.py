"""Fetches of followers: whole batches up to the end of the log, and news of watermark and start.

Differs from what consumers get: a follower reads beyond the high watermark, its fetch tells how far
it is (which moves the watermark and releases acks), and its session knows which partitions have
anything to tell (`replication/follower_session`). A fetch that waits is a pending reply, not a
task. Fetches come as messages (`broker/request/follower_by_message`) or, most of those in a session
that is open, from bytes to bytes (`broker/request/follower_by_bytes`). Who may fetch, and which
error says what, is as in Apache Kafka:

    leader epoch of the fetch is older, newer      FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH
    the node is no replica                         UNKNOWN_LEADER_EPOCH, since it may be one soon;
                                                   without an epoch NOT_LEADER_OR_FOLLOWER
    another broker epoch than the registered one   NOT_LEADER_OR_FOLLOWER; Kafka takes a later one,
                                                   and none at all: see `Partition.check_follower`
    the node is not registered                     it reads; nothing is noted
    its log does not agree with this one           where it has to truncate to; nothing is noted
    its offset is not in this log                  OFFSET_OUT_OF_RANGE; nothing is noted

A follower that is out of sync gets no more records than the throttle allows, if its topic asks for
that (`replication/throttle`); the news of other partitions, and watermarks, go on.
"""

from collections import deque
from typing import Final

from penstock.broker.request.fetch_answers import diverged, failed, name_leaders
from penstock.broker.request.follower_answers import response_of
from penstock.broker.request.pending_reply import Parts, PendingReply
from penstock.broker.request.poll_alarm import PollAlarm
from penstock.broker.request.services import Services
from penstock.log.errors import CorruptData
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.limit import ENTRIES_PER_TURN
from penstock.replication.fetch_session import EPOCH_FIRST, NO_SESSION
from penstock.replication.follower_session import Followed, FollowerSession, FollowerSessions
from penstock.replication.partition import Partition
from penstock.replication.throttle import is_listed
from penstock.wire.api import ApiKey
from penstock.wire.header import encode_response
from penstock.wire.messages.fetch import (
    FetchResponse,
    PartitionData,
)
from penstock.wire.replica_fetch import Answer, encode_replica_reply
from penstock.world.errors import DiskError

NO_BROKER_EPOCH: Final = -1
NO_LIMIT: Final = 2**62
CONSUMER: Final = -1


class FollowerFetch(PendingReply):
    """One fetch of a follower; the reply to it, if that must wait. `is_direct`: the reply is
    encoded here, without the objects of a message where it can be.
    """

    __slots__ = (
        "_broker_epoch",
        "_bytes_max",
        "_bytes_min",
        "_correlation_id",
        "_direct_parts",
        "_is_direct",
        "_is_due",
        "_is_encoded",
        "_is_woken",
        "_listener",
        "_node",
        "_received_ms",
        "_registered_epoch",
        "_services",
        "_version",
        "ends_ms",
        "response",
        "session",
        "sessions",
    )

    session: FollowerSession

    def __init__(
        self,
        services: Services,
        node: NodeId,
        *,
        broker_epoch: int,
        bytes_max: int,
        bytes_min: int,
        correlation_id: int,
        version: int,
        listener: str,
        received_ms: int,
        is_direct: bool = False,
    ) -> None:
        super().__init__()
        self.response: FetchResponse = NO_RESPONSE
        self.sessions: FollowerSessions = services.follower_sessions
        self._services = services
        self._node = node
        self._broker_epoch = broker_epoch
        registered = services.image.brokers.get(node)
        self._registered_epoch = NO_BROKER_EPOCH if registered is None else registered.epoch
        self._bytes_max = max(min(bytes_max, services.settings.fetch_max_bytes), 0)
        self._bytes_min = min(bytes_min, self._bytes_max)
        self._correlation_id = correlation_id
        self._version = version
        self._listener = listener
        self._received_ms = received_ms
        self._is_direct = is_direct
        self._direct_parts: Parts | None = None
        self.ends_ms = 0  # of the wait
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
        if self._registered_epoch == NO_BROKER_EPOCH:
            return  # anybody may claim to be it, with an epoch that keeps the node itself out
        start_offset = followed.log_start_offset
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

    def encoded(self) -> Parts:
        if self._direct_parts is not None:
            return self._direct_parts
        if self._services.request_stats is not None:
            self._services.request_stats.note_errors(ApiKey.FETCH, self.response)
        return encode_response(self._correlation_id, self.response, self._version)

    def answer_or_wait(
        self,
        *,
        session_epoch: int,
        wait_ms_max: int,
        named: list[Followed],
        encoded: bool = True,
    ) -> bool:
        """Whether it is answered: if not, this is a reply that waits. `named`: the partitions that
        the fetch names, all of them noted. `encoded`: the reply that waits is sent as it is filled.
        """
        session = self.session
        is_first = session_epoch == EPOCH_FIRST
        if is_first and session.partitions and self.is_of_registered_process:
            random_below = self._services.world.entropy.random_below
            self.sessions.opened(session, random_below=random_below)
        if session.session_id != NO_SESSION and not is_first:
            self._look_again(named)
        now_ms = self._services.world.clock.monotonic_ms()
        self.ends_ms = self._received_ms + wait_ms_max
        # A follower that gets no session would ask again and again if no reply waited.
        is_opened = is_first and session.session_id != NO_SESSION
        self._is_due = self.ends_ms <= now_ms or is_opened or not session.partitions
        self._is_encoded = encoded
        if (self._is_due or session.behind_count or session.is_urgent) and self._try_answer():
            return True
        session.poll = self
        alarm = session.alarm
        if alarm is None:
            alarm = session.alarm = PollAlarm(session, self._services.world.clock)
        assert isinstance(alarm, PollAlarm)
        alarm.set(self.ends_ms, now_ms=now_ms)
        return False

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

    def time_is_up(self) -> None:
        self._is_due = True
        self.wake()

    def _go_on(self) -> None:
        self._is_woken = False
        if self.session.poll is self and self._try_answer():
            self._finish()

    def _finish(self) -> None:
        self._stop()
        self.fill(self.encoded() if self._is_encoded else [])

    def _stop(self) -> None:
        if self.session.poll is self:
            self.session.poll = None

    def _look_again(self, named: list[Followed]) -> None:
        """A fetch speaks for partitions too that it does not name: they are where they were. Those
        without news are at the end of their logs, as the session knows.
        """
        session = self.session
        if session.behind_count:
            noted = set(named)
            for followed in tuple(session.news):
                if followed.is_behind and followed not in noted:
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
        index = followed.index
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
            leader_epoch=followed.leader_epoch,
            broker_epoch=self._broker_epoch,
            registered_epoch=self._registered_epoch,
        )
        if code is not ErrorCode.NONE:
            return failed(index, code)
        if followed.last_fetched_epoch >= 0:
            where = diverged(
                found,
                index,
                last_fetched_epoch=followed.last_fetched_epoch,
                fetch_offset=followed.offset,
            )
            if where is not None:
                return where
        if not found.has_offset(followed.offset):
            return failed(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        return found

    def _try_answer(self) -> bool:
        """Reads what there is, and answers if that is enough."""
        session = self.session
        answers: list[tuple[Followed, PartitionData | Answer]] = []
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
            if isinstance(answer, Answer):
                if answer.records is not None:
                    byte_count += answer.records.byte_count
            elif answer.error_code != ErrorCode.NONE:
                is_urgent = True
        if not self._is_due and not is_urgent and byte_count < self._bytes_min:
            session.news = deque((*(followed for followed, _ in answers), *unread))
            return False
        session.news = unread
        session.is_urgent = any(followed.failure is not None for followed in unread)
        self._tell(answers)
        return True

    def _read(self, followed: Followed, *, bytes_left: int) -> PartitionData | Answer | None:
        """What is new to the follower; None when nothing is, or there is no room for it."""
        if followed.partition is None and followed.failure is None:
            self._find(followed)  # it was led, and is not, or in another epoch
        if followed.failure is not None:
            return followed.failure
        partition = followed.partition
        assert partition is not None
        index = followed.index
        followed.note_behind()
        start_offset = partition.log.start_offset
        if followed.offset < start_offset:
            return failed(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        found = None
        room_bytes = self._room_bytes(partition) if followed.is_behind else 0
        if followed.is_behind and room_bytes:
            try:
                found = partition.read_for_follower(
                    followed.offset,
                    size_bytes_max=max(min(followed.bytes_max, bytes_left, room_bytes), 0),
                    oversized_first=bytes_left == self._bytes_max,
                )
            except CorruptData as damage:
                self._services.partitions.damage_found(partition, damage)
                return failed(index, ErrorCode.CORRUPT_MESSAGE)
            except DiskError as error:
                self._services.partitions.read_failed(partition, error)
                return failed(index, ErrorCode.KAFKA_STORAGE_ERROR)
            if (found is None or found.span is None) and bytes_left < self._bytes_max:
                return None
        high_watermark = partition.high_watermark
        if (found is None or found.span is None) and followed.is_sent(
            high_watermark=high_watermark, start_offset=start_offset
        ):
            return None
        return Answer(
            topic_id=followed.topic_id,
            index=index,
            high_watermark=high_watermark,
            last_stable_offset=partition.last_stable_offset,
            start_offset=start_offset,
            records=None if found is None else found.span,
        )

    def _room_bytes(self, partition: Partition) -> int:
        """How much of the partition the throttle allows now."""
        throttle = self._services.leader_throttle
        if throttle.rate_bytes is None or not self._is_throttled(partition):
            return NO_LIMIT
        return throttle.room_bytes(now_ms=self._services.world.clock.monotonic_ms())

    def _is_throttled(self, partition: Partition) -> bool:
        """Whether the topic asks for it, and no ack waits for this follower."""
        return is_listed(
            partition.settings.leader_replication_throttled_replicas,
            partition=partition.name.partition,
            node=self._services.node_id,
        ) and not partition.followers.counts(self._node)

    def _note_passed(self, partition: Partition, byte_count: int) -> None:
        throttle = self._services.leader_throttle
        if throttle.rate_bytes is not None and self._is_throttled(partition):
            throttle.passed(byte_count, now_ms=self._services.world.clock.monotonic_ms())

    def _tell(self, answers: list[tuple[Followed, PartitionData | Answer]]) -> None:
        """What is told counts as known. What has records comes last the next time."""
        session = self.session
        read: list[Answer] = []
        for followed, answer in answers:
            if isinstance(answer, Answer):
                read.append(answer)
                if answer.records is not None and followed.partition is not None:
                    byte_count = answer.records.byte_count
                    followed.partition.traffic.replication_bytes_out += byte_count
                    self._note_passed(followed.partition, byte_count)
                followed.sent_high_watermark = answer.high_watermark
                followed.sent_start_offset = answer.start_offset
                if followed.is_behind:
                    session.news.append(followed)
                else:
                    followed.is_news = False
            else:  # it failed, or has to truncate
                session.failed[followed] = None
                followed.sent_high_watermark = -1
                followed.is_news = False
        has_failed = len(read) < len(answers)
        if self._is_direct and not has_failed:
            self._direct_parts = encode_replica_reply(
                correlation_id=self._correlation_id, session_id=session.session_id, answers=read
            )
        else:
            self.response = response_of(answers, session_id=session.session_id)
        if has_failed:
            name_leaders(
                self._services, self.response, version=self._version, listener=self._listener
            )
        if session.session_id == NO_SESSION:
            session.poll = None
            session.close()


NO_RESPONSE: Final = FetchResponse()  # until there is one
