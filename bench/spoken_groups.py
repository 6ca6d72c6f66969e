"""Groups of both protocols that one program speaks: their members join, send heartbeats and commit.

A member does what a consumer of its protocol does, but reads nothing. It counts as disturbed when
it is told to join again, or gets another epoch or assignment, once its group is settled. The first
member of a group commits an offset that grows with each round of heartbeats; the group remembers
what was acked.
"""

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field

from groups import TOPIC, form
from penstock.client.network.coordinators import Coordinators
from penstock.model.error import ErrorCode
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

HEARTBEAT_SECONDS = {"classic": 3.0, "consumer": 5.0}  # the defaults of clients and of brokers
REBALANCE_MS = 300_000
SETTLING_ROUNDS_MAX = 200
ROUND_SECONDS = 0.1  # between heartbeats of members that have something to tell
COMMIT_VERSION, FETCH_VERSION = 9, 7


class SpokenGroup(ABC):
    """One group, and the coordinators that it is asked of."""

    def __init__(self, name: str, coordinators: Coordinators, *, members: int) -> None:
        self.name = name
        self.size = members
        self.coordinators = coordinators
        self.answers: Counter[ErrorCode] = Counter()
        self.disturbed = 0
        self.committed = -1  # the last offset that was acked
        self.went_back = 0

    @property
    @abstractmethod
    def protocol(self) -> str: ...

    @abstractmethod
    async def form(self) -> None:
        """Returns when every member has its part."""

    @abstractmethod
    async def heartbeat(self, index: int) -> ErrorCode:
        """Of one member, from the coordinator, wherever it is now."""

    @property
    @abstractmethod
    def _first(self) -> tuple[str, int]:
        """The member that commits, and its generation or epoch."""

    async def live(self) -> None:
        """Until it is cancelled."""
        pause = HEARTBEAT_SECONDS[self.protocol]
        await asyncio.sleep(hash(self.name) % 1000 / 1000 * pause)
        while True:
            self.answers.update(await asyncio.gather(*map(self.heartbeat, range(self.size))))
            await self.commit()
            await asyncio.sleep(pause)

    async def commit(self) -> ErrorCode:
        """Of its first member. Only a coordinator that has loaded the group takes it."""
        member, epoch = self._first
        offset = self.committed + 1
        wanted = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self.name,
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[wanted])],
        )
        reply = await self.coordinators.ask(
            self.name,
            request,
            OffsetCommitResponse,
            code_of=lambda told: told.topics[0].partitions[0].error_code,
            version_max=COMMIT_VERSION,
        )
        code = ErrorCode(reply.topics[0].partitions[0].error_code)
        self.answers[code] += 1
        if code == ErrorCode.NONE:
            self.committed = max(self.committed, offset)
        return code

    async def check_offset(self) -> None:
        """Whether what was acked before is there still."""
        acked = self.committed
        wanted = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        reply = await self.coordinators.ask(
            self.name,
            OffsetFetchRequest(group_id=self.name, topics=[wanted]),
            OffsetFetchResponse,
            code_of=lambda told: told.error_code,
            version_max=FETCH_VERSION,
        )
        self.went_back += reply.topics[0].partitions[0].committed_offset < acked


class ClassicGroup(SpokenGroup):
    protocol = "classic"

    def __init__(self, name: str, coordinators: Coordinators, *, members: int) -> None:
        super().__init__(name, coordinators, members=members)
        self._leader = ""
        self._generation = 0
        self._members: list[str] = []

    async def form(self) -> None:
        self._leader, self._generation, self._members = await form(
            self.coordinators.cluster, self.name, self.size
        )

    async def heartbeat(self, index: int) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.name, generation_id=self._generation, member_id=self._members[index]
        )
        reply = await self.coordinators.ask(
            self.name, request, HeartbeatResponse, code_of=lambda told: told.error_code
        )
        code = ErrorCode(reply.error_code)
        self.disturbed += code != ErrorCode.NONE
        return code

    @property
    def _first(self) -> tuple[str, int]:
        return self._leader, self._generation


@dataclass(slots=True, kw_only=True)
class Member:
    member_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = 0
    owned: list[TopicPartitions] = field(default_factory=list)
    has_news: bool = True  # that the coordinator has not been told yet

    @property
    def partitions(self) -> int:
        return sum(len(topic.partitions) for topic in self.owned)


class ConsumerGroup(SpokenGroup):
    """KIP-848. A member gives up at once what it is told to give up."""

    protocol = "consumer"

    def __init__(self, name: str, coordinators: Coordinators, *, members: int) -> None:
        super().__init__(name, coordinators, members=members)
        self._members = [Member() for _ in range(members)]
        self._is_settled = False

    async def form(self) -> None:
        """All partitions of the topic are shared by the members."""
        for _ in range(SETTLING_ROUNDS_MAX):
            codes = await asyncio.gather(*map(self.heartbeat, range(self.size)))
            assert set(codes) == {ErrorCode.NONE}, codes
            epochs = {member.epoch for member in self._members}
            news = any(member.has_news for member in self._members)
            if len(epochs) == 1 and not news and all(one.partitions for one in self._members):
                self._is_settled = True
                return
            await asyncio.sleep(ROUND_SECONDS)
        raise AssertionError(f"{self.name} does not settle: {self._members}")

    async def heartbeat(self, index: int) -> ErrorCode:
        member = self._members[index]
        joins = member.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.name,
            member_id=member.member_id,
            member_epoch=member.epoch,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            subscribed_topic_names=[TOPIC] if joins else None,
            topic_partitions=member.owned if joins or member.has_news else None,
        )
        reply = await self.coordinators.ask(
            self.name,
            request,
            ConsumerGroupHeartbeatResponse,
            code_of=lambda told: told.error_code,
        )
        code = ErrorCode(reply.error_code)
        if code == ErrorCode.NONE:
            self._take(member, reply)
        else:
            self.disturbed += 1
        return code

    def _take(self, member: Member, reply: ConsumerGroupHeartbeatResponse) -> None:
        before, given = (member.epoch, member.partitions), reply.assignment
        member.epoch = reply.member_epoch
        member.has_news = given is not None and given.topic_partitions != member.owned
        if given is not None:
            member.owned = list(given.topic_partitions)
        self.disturbed += self._is_settled and (member.epoch, member.partitions) != before

    @property
    def _first(self) -> tuple[str, int]:
        return self._members[0].member_id, self._members[0].epoch


PROTOCOLS: dict[str, type[ClassicGroup] | type[ConsumerGroup]] = {
    "classic": ClassicGroup,
    "consumer": ConsumerGroup,
}
