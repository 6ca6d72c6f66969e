"""A consumer that shares the partitions of its topics with the other members of a group.

    async with GroupConsumer(cluster, "billing", topics=("orders",)) as consumer:
        while True:
            for record in await consumer.poll(wait_ms=1_000):
                ...
            await consumer.commit()      # only where `auto_commit_ms` is None

The rules of membership are `membership/`'s, which knows no tasks; here is the shell. One task keeps
the membership alive: it asks what the member wants asked. It waits for nobody but the coordinator:
the metadata is read again beside it. Partitions come and go inside `poll`
alone, in the caller's task: at that moment he is done with all records that he was given, so their
offsets are committed before a partition is let go, and nobody reads them again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field, replace
from enum import Enum
from types import TracebackType
from typing import Self

from penstock.client.consume.consumer import RECORDS_AT_ONCE, Consumer, ConsumerRules
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.consume.group_offsets import Committed, commit_offsets, committed_offsets
from penstock.client.consume.membership.assignors import Assignor
from penstock.client.consume.membership.classic import ClassicMember, ClassicSubscription
from penstock.client.consume.membership.member import Assign, Lose, Member, Places, Question, Revoke
from penstock.client.consume.membership.modern import (
    ModernMember,
    ModernSubscription,
    unknown_topics,
)
from penstock.client.network.background_tasks import BackgroundTasks
from penstock.client.network.cluster import Cluster, Lane
from penstock.client.network.coordinators import LOST, MOVED, Coordinators
from penstock.client.network.errors import (
    STALE_METADATA,
    ClientError,
    Refused,
    TimedOut,
    UnsupportedByBroker,
    error_code,
)
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition, id_text
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.wire.definition import Message
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.wire.messages.heartbeat import HeartbeatResponse
from penstock.wire.messages.join_group import JoinGroupResponse
from penstock.wire.messages.leave_group import LeaveGroupResponse
from penstock.wire.messages.sync_group import SyncGroupResponse
from penstock.world.ports import Entropy

FAREWELL_MS = 5_000
METADATA_MS = 30_000
# So long a partition that was assigned may be unknown to the brokers that are asked for it. A topic
# that was deleted is taken away again sooner, since the leader of a classic group looks as well.
ABSENT_MS_MAX = 2 * METADATA_MS

PartitionsCallback = Callable[[tuple[TopicPartition, ...]], Awaitable[None]]


class GroupProtocol(Enum):
    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRules:
    protocol: GroupProtocol | None = None  # None: the newest that the brokers have
    assignor: Assignor = Assignor.COOPERATIVE_STICKY  # of a classic group
    server_assignor: str | None = None  # of KIP-848; None: the coordinator's first
    instance_id: str | None = None
    rack: str | None = None  # as Kafka's client.rack: for assignors, and for reading (KIP-392)
    auto_commit_ms: int | None = 5_000  # None: offsets are committed when the caller says so
    poll_ms_max: int = 300_000  # who does not poll for so long is no member any more
    session_ms: int = 45_000
    heartbeat_ms: int = 3_000
    metadata_ms: int = METADATA_MS  # how often to look for partitions that were added
    reading: ConsumerRules = field(default_factory=ConsumerRules)

    @property
    def reading_in_rack(self) -> ConsumerRules:
        """Who says where it is reads there, unless the rules of reading name another rack."""
        reading = self.reading
        if self.rack is None or reading.fetch.rack:
            return reading
        return replace(reading, fetch=replace(reading.fetch, rack=self.rack))


async def _ignore(partitions: tuple[TopicPartition, ...]) -> None:
    """For those who do not want to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Who is told of partitions that come and go, from within `poll` and at the end."""

    assigned: PartitionsCallback = _ignore
    revoked: PartitionsCallback = _ignore  # still ours: offsets can be committed
    lost: PartitionsCallback = _ignore  # not ours any more


class GroupConsumer:
    def __init__(
        self,
        cluster: Cluster,
        group: str,
        *,
        entropy: Entropy,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        rules: GroupRules | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.cluster = cluster
        self.group = group
        self.topics = tuple(topics)
        self.pattern = pattern
        self.rules = rules or GroupRules()
        self.listener = listener or Listener()
        assert (pattern is None) == bool(self.topics), "either topics or a pattern"
        self._coordinators = Coordinators(cluster)
        self._reader = Consumer(cluster, rules=self.rules.reading_in_rack)
        self._entropy = entropy
        self._member: Member | None = None
        self._life: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._committed: dict[TopicPartition, Offset] = {}
        self._commit_at_ms = 0
        self._polled_at_ms = 0
        self._dropped_out = False
        self._background_tasks = BackgroundTasks(
            cluster.tasks, done=self._wake.set, backoff_ms=cluster.rules.backoff_ms
        )
        self._metadata_at_ms = 0
        self._metadata_is_new = False  # and the member does not know
        self._take_on_at_ms = 0  # not before: the last try was in vain
        self._absent_since_ms: int | None = None  # a partition that was assigned

    @property
    def member(self) -> Member:
        assert self._member is not None, "use it as `async with`"
        return self._member

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._reader.assignment

    async def __aenter__(self) -> Self:
        self._member = await self._new_member()
        now_ms = self.cluster.clock.monotonic_ms()
        self._polled_at_ms = now_ms
        self._commit_at_ms = now_ms + (self.rules.auto_commit_ms or 0)
        self._life = self.cluster.tasks.start(self._live(), name=f"member of {self.group}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commits, if that is automatic, and leaves. After an error nothing is committed: what was
        being worked on is not done.
        """
        assert self._life is not None
        self._background_tasks.close()
        self._life.cancel()
        await asyncio.wait([self._life])
        owned = self.member.owned
        try:
            async with asyncio.timeout(FAREWELL_MS / 1000):
                if error is None and self.rules.auto_commit_ms is not None:
                    await self._commit_quietly(owned)
                if owned:
                    await self.listener.revoked(owned)
                farewell = self.member.leave()
                if farewell is not None:
                    await self._ask(farewell)
        except (ClientError, TimeoutError):
            pass  # the session's end will tell the group
        finally:
            await self._reader.__aexit__(kind, error, trace)

    async def poll(
        self, *, wait_ms: int, records_max: int = RECORDS_AT_ONCE
    ) -> list[ConsumedRecord]:
        """The next records; none when `wait_ms` have passed. Raises what ended the membership."""
        clock = self.cluster.clock
        deadline_ms = clock.monotonic_ms() + wait_ms
        self._polled_at_ms = clock.monotonic_ms()
        if self._dropped_out:
            self._dropped_out = False
            self._wake.set()
        await self._commit_if_due()
        while True:
            await self._carry_out_changes()
            if self.member.error is not None:
                raise self.member.error
            now_ms = clock.monotonic_ms()
            left_ms = max(0, deadline_ms - now_ms)
            if self.member.has_change():
                left_ms = min(left_ms, max(0, self._take_on_at_ms - now_ms))
            records = await self._reader.poll(wait_ms=left_ms, records_max=records_max)
            if records or clock.monotonic_ms() >= deadline_ms:
                return records

    async def commit(self, offsets: Mapping[TopicPartition, Offset] | None = None) -> None:
        """These offsets, or those after all records handed out. Refused when the partitions have
        gone to others, or may have: while this is no member of the group.
        """
        wanted = self._reader.positions() if offsets is None else dict(offsets)
        if not wanted:
            return
        deadline_ms = self.cluster.clock.monotonic_ms() + self.cluster.rules.request_ms_max
        while True:
            committer = self.member.committer
            if committer is None:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group}")
            results = await commit_offsets(
                self._coordinators,
                self.group,
                {
                    place: Committed(
                        offset=offset,
                        leader_epoch=self._reader.leader_epoch_before(place, offset),
                    )
                    for place, offset in wanted.items()
                },
                member=committer,
            )
            refused = [result for result in results.values() if result is not None]
            if not refused:
                self._committed.update(wanted)
                return
            late = self.cluster.clock.monotonic_ms() >= deadline_ms
            if refused[0].code != ErrorCode.STALE_MEMBER_EPOCH or late:
                raise refused[0]
            # The heartbeat under way brings the new epoch.
            await asyncio.sleep(self.cluster.rules.backoff_ms / 1000)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """What the group has committed of these; one without an offset is left out. Offsets of a
        transaction that is not over are waited for, as long as for an answer.
        """
        wanted = tuple(partitions)
        deadline_ms = self.cluster.clock.monotonic_ms() + self.cluster.rules.request_ms_max
        while True:
            try:
                return await self._committed_now(wanted)
            except Refused as refused:
                late = self.cluster.clock.monotonic_ms() >= deadline_ms
                if refused.code != ErrorCode.UNSTABLE_OFFSET_COMMIT or late:
                    raise
            await asyncio.sleep(self.cluster.rules.backoff_ms / 1000)

    def positions(self) -> dict[TopicPartition, Offset]:
        """The offset after the last record handed out, of each partition that has a position."""
        return self._reader.positions()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._reader.seek(partition, offset)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        return await self._reader.end_offsets(partitions)

    async def _new_member(self, protocol: GroupProtocol | None = None) -> Member:
        rules = self.rules
        protocol = protocol or rules.protocol or await self._newest_protocol()
        if protocol is GroupProtocol.CONSUMER:
            return ModernMember(
                ModernSubscription(
                    group=self.group,
                    topics=self.topics,
                    pattern=self.pattern,
                    instance_id=rules.instance_id,
                    rack=rules.rack,
                    assignor=rules.server_assignor,
                    rebalance_ms=rules.poll_ms_max,
                ),
                member_id=id_text(self._entropy.random_bytes(16)),
            )
        if self.pattern is not None:
            raise UnsupportedByBroker("patterns of topics need a broker with KIP-848")
        return ClassicMember(
            ClassicSubscription(
                group=self.group,
                topics=self.topics,
                assignor=rules.assignor,
                instance_id=rules.instance_id,
                rack=rules.rack,
                session_ms=rules.session_ms,
                heartbeat_ms=rules.heartbeat_ms,
                rebalance_ms=rules.poll_ms_max,
            )
        )

    async def _newest_protocol(self) -> GroupProtocol:
        channel = await self.cluster.channel(await self._coordinators.of(self.group))
        try:
            channel.version_for(ConsumerGroupHeartbeatRequest)
        except UnsupportedByBroker:
            return GroupProtocol.CLASSIC
        return GroupProtocol.CONSUMER

    async def _live(self) -> None:
        """Keeps the membership alive until it is cancelled."""
        while True:
            try:
                await self._live_on()
            except UnsupportedByBroker as error:
                self.member.error = Refused(
                    ErrorCode.UNSUPPORTED_VERSION, f"group {self.group}", str(error)
                )
            except ClientError:
                self.member.unanswered(now_ms=self.cluster.clock.monotonic_ms())
            if self.member.has_change() or self.member.error is not None:
                self._reader.interrupt()

    async def _live_on(self) -> None:
        """One question to the coordinator, or a wait until one is due."""
        now_ms, member = self.cluster.clock.monotonic_ms(), self.member
        poll_deadline_ms = self._polled_at_ms + self.rules.poll_ms_max
        if now_ms >= poll_deadline_ms and not self._dropped_out:
            self._dropped_out = True
            farewell = member.leave()
            if farewell is not None:
                await self._ask(farewell)
            return
        await self._look_at_metadata(member, now_ms)
        question = None
        if not self._dropped_out:
            question = member.request(self.cluster.view, now_ms=now_ms)
        if question is None:
            # What is overdue waits for the user, or for metadata: both wake us.
            due_ms = (member.next_at_ms, poll_deadline_ms, self._metadata_at_ms)
            next_ms = min((ms for ms in due_ms if ms > now_ms), default=now_ms + METADATA_MS)
            await self._sleep(next_ms - now_ms)
            return
        reply = await self._ask(question)
        if unknown_topics(reply, self.cluster.view):
            await self._soon(self._refresh())
        member.answered(reply, self.cluster.view, now_ms=self.cluster.clock.monotonic_ms())
        await self._fall_back(member)

    async def _fall_back(self, member: Member) -> None:
        """To a classic member, where the brokers know KIP-848 and have it switched off."""
        error = member.error
        if error is None or error.code != ErrorCode.UNSUPPORTED_VERSION:
            return
        if self.rules.protocol is None and isinstance(member, ModernMember):
            self._member = await self._new_member(GroupProtocol.CLASSIC)

    async def _look_at_metadata(self, member: Member, now_ms: int) -> None:
        view = self.cluster.view
        if now_ms >= self._metadata_at_ms:
            self._background_tasks.run(f"metadata for {self.group}", self._read_metadata)
        if now_ms >= member.next_at_ms and any(
            topic not in view.topics and topic not in view.errors for topic in member.topics_needed
        ):
            await self._soon(self.cluster.refresh(member.topics_needed))
        if self._metadata_is_new:
            self._metadata_is_new = False
            member.metadata_changed(self.cluster.view, now_ms=now_ms)

    async def _read_metadata(self) -> None:
        clock = self.cluster.clock
        self._metadata_at_ms = clock.monotonic_ms() + self.rules.metadata_ms
        try:
            await self._refresh()
            self._metadata_is_new = True
        except ClientError:
            self._metadata_at_ms = clock.monotonic_ms()  # after the backoff, that is
            raise

    async def _soon(self, metadata: Awaitable[object]) -> None:
        """What the next step cannot do without. A broker that keeps silent must not keep the member
        from its heartbeats: TimedOut.
        """
        wait_ms = self.rules.heartbeat_ms
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await metadata
        except TimeoutError as error:
            raise TimedOut(f"group {self.group}: no metadata within {wait_ms} ms") from error

    async def _refresh(self) -> None:
        if self.pattern is None:
            await self.cluster.refresh(self.topics)
        else:
            await self.cluster.refresh_all()

    async def _ask(self, question: Question) -> Message:
        if not question.repeatable:
            return await self._ask_once(question)
        rules = self.cluster.rules
        patience_ms = self.rules.poll_ms_max if question.may_wait else 0
        return await self._coordinators.ask(
            self.group,
            question.request,
            question.reply_type,
            code_of=_code_of,
            lane=Lane.MEMBERSHIP,
            answer_ms_max=rules.request_ms_max + patience_ms,
        )

    async def _ask_once(self, question: Question) -> Message:
        try:
            reply = await self._coordinators.ask_once(
                self.group,
                question.request,
                question.reply_type,
                answer_ms_max=self.cluster.rules.request_ms_max,
                lane=Lane.MEMBERSHIP,
            )
        except LOST:
            self._coordinators.forget(self.group)
            raise
        if _code_of(reply) in MOVED:
            self._coordinators.forget(self.group)
        return reply

    async def _sleep(self, wait_ms: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000):
                await self._wake.wait()
        self._wake.clear()

    async def _carry_out_changes(self) -> None:
        """All there are, or all before partitions that cannot be taken on yet."""
        while (change := self.member.take_change()) is not None:
            done = not isinstance(change, Assign)  # who gives up has given up, whatever goes wrong
            try:
                match change:
                    case Assign(partitions):
                        done = await self._take_on(partitions)
                    case Revoke(partitions):
                        await self._give_up(partitions)
                    case Lose(partitions):
                        self._let_go(partitions)
                        await self.listener.lost(partitions)
            finally:
                if done:
                    self.member.carried_out(change, now_ms=self.cluster.clock.monotonic_ms())
                else:
                    self.member.put_back(change)
                self._wake.set()
            if not done:
                return
            if isinstance(change, Assign):
                await self.listener.assigned(change.partitions)
        self._absent_since_ms = None

    async def _take_on(self, partitions: Places) -> bool:
        """Whether they are read from now on; if not, another try is worth while, a bit later."""
        clock = self.cluster.clock
        if clock.monotonic_ms() < self._take_on_at_ms:
            return False
        if not await self._begin_to_read(partitions):
            self._take_on_at_ms = clock.monotonic_ms() + self.cluster.rules.backoff_ms
            return False
        return True

    async def _begin_to_read(self, partitions: Places) -> bool:
        """From where the group has got to. False while that is not to be known yet: a transaction
        with its offsets is open, or a broker lags behind.
        """
        try:
            found = await self._committed_now(partitions)
        except Refused as refused:
            if refused.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
            self._absent_since_ms = None  # it waits for something else
            return False
        try:
            await self._reader.add(partitions)
        except (Refused, *LOST) as error:
            if not self._may_appear(error, now_ms=self.cluster.clock.monotonic_ms()):
                raise
            return False
        self._absent_since_ms = None
        for place, offset in found.items():
            self._committed[place] = offset
            self._reader.seek(place, offset)
        return True

    async def _committed_now(self, partitions: Places) -> dict[TopicPartition, Offset]:
        results = await committed_offsets(self._coordinators, self.group, partitions, stable=True)
        found = {}
        for place, result in results.items():
            if isinstance(result, Refused):
                raise result
            found[place] = result.offset
        return found

    def _may_appear(self, error: ClientError, *, now_ms: int) -> bool:
        """Whether partitions that were assigned are unknown because a broker lags behind."""
        if isinstance(error, Refused) and error.code not in STALE_METADATA:
            return False
        if self._absent_since_ms is None:
            self._absent_since_ms = now_ms
        return now_ms - self._absent_since_ms < ABSENT_MS_MAX

    async def _give_up(self, partitions: Places) -> None:
        try:
            if self.rules.auto_commit_ms is not None:
                await self._commit_quietly(partitions)
            await self.listener.revoked(partitions)
        finally:
            self._let_go(partitions)

    def _let_go(self, partitions: Places) -> None:
        for place in partitions:
            self._committed.pop(place, None)
        self._reader.remove(partitions)

    async def _commit_if_due(self) -> None:
        period_ms, now_ms = self.rules.auto_commit_ms, self.cluster.clock.monotonic_ms()
        if period_ms is not None and now_ms >= self._commit_at_ms:
            self._commit_at_ms = now_ms + period_ms
            await self._commit_quietly(self.member.owned)

    async def _commit_quietly(self, partitions: Places) -> None:
        """What has moved since the last commit. One that fails is made up for by the next, or the
        records are read again.
        """
        positions = self._reader.positions()
        moved = {
            place: positions[place]
            for place in partitions
            if place in positions and self._committed.get(place) != positions[place]
        }
        with contextlib.suppress(ClientError):
            await self.commit(moved)


def _code_of(reply: Message) -> int:
    match reply:
        case (
            ConsumerGroupHeartbeatResponse()
            | JoinGroupResponse()
            | SyncGroupResponse()
            | HeartbeatResponse()
            | LeaveGroupResponse()
        ):
            return error_code(reply.error_code)
        case _:
            raise AssertionError(reply)
