"""A consumer of the consumer protocol (KIP-848) as real clients behave, and topics that change."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.machine.held_replies import NotDone
from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from rig.group_world import GroupWorld

LOST = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
TRY_AGAIN = (ErrorCode.UNRELEASED_INSTANCE_ID,)


class Topics:
    """The topics of a cluster: they come, grow and go, and every change is another image."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts = dict(counts or {})
        self._ids = {name: number for number, name in enumerate(self.counts, start=1)}
        self._made = len(self._ids)
        self._changes = 0

    def create(self, name: str, partitions: int) -> None:
        self._made += 1
        self._ids[name] = self._made
        self.counts[name] = partitions
        self._changes += 1

    def grow(self, name: str, by: int) -> None:
        self.counts[name] += by
        self._changes += 1

    def delete(self, name: str) -> None:
        del self.counts[name]
        del self._ids[name]
        self._changes += 1

    def topic_id(self, name: str) -> TopicId:
        return TopicId(self._ids[name].to_bytes(16, "big"))

    def partitions(self, name: str) -> frozenset[TopicIdPartition]:
        topic_id = self.topic_id(name)
        return frozenset(TopicIdPartition(topic_id, n) for n in range(self.counts[name]))

    def image(self) -> Image:
        node = NodeId(1)
        partition = PartitionImage(
            replicas=(node,),
            isr=(node,),
            leader=node,
            leader_epoch=LeaderEpoch(0),
            partition_epoch=0,
        )
        topics = [
            TopicImage(
                name=name, topic_id=self.topic_id(name), partitions=(partition,) * self.counts[name]
            )
            for name in self.counts
        ]
        return Image(
            offset=Offset(self._changes),
            topics_by_name={topic.name: topic for topic in topics},
            topics_by_id={topic.topic_id: topic for topic in topics},
        )


@dataclass(eq=False)
class ModernConsumer:
    """`owned` is what it reads from now; `told` what it was last told to own.

    Clients differ in when they report what they own: in each heartbeat, or (`is_terse`, as Java's
    does) when they have carried out an assignment, and whenever they send everything.
    """

    world: GroupWorld
    group: str
    member_id: str
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    rebalance_ms: int = 60_000
    epoch: int = 0
    owned: frozenset[TopicIdPartition] = frozenset()
    told: frozenset[TopicIdPartition] = frozenset()
    lives: bool = True
    interval_ms: int = 0
    last_code: ErrorCode = ErrorCode.NONE
    last_message: str | None = None
    tells_all: bool = field(default=True)  # at the next heartbeat
    is_terse: bool = False
    has_news: bool = False  # it was told another assignment, and has not carried it out yet
    reports: bool = False  # at the next heartbeat: it has carried out an assignment

    def heartbeat(self, *, reply_lost: bool = False, acknowledges_meanwhile: bool = False) -> None:
        """Tells what is new, and takes in the answer unless it gets lost on the way. Meanwhile the
        client may carry out what it was told before.
        """
        all_of_it = self.tells_all or self.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.rebalance_ms if all_of_it else -1,
            subscribed_topic_names=list(self.topics or ()) if all_of_it else None,
            subscribed_topic_regex=(self.regex or "") if all_of_it else None,
            server_assignor=self.assignor if all_of_it else None,
            topic_partitions=(
                self._owned_on_the_wire()
                if all_of_it or self.reports or not self.is_terse
                else None
            ),
        )
        self.tells_all, self.reports = reply_lost, False
        ticket = self.world.ask(request, version=1, client_id=self.member_id)
        if acknowledges_meanwhile:
            self.acknowledge()
        if not reply_lost:
            self._take_in(self.world.answers[ticket])

    def acknowledge(self) -> None:
        """Gives up and takes over what it was told; the next heartbeat reports it."""
        self.owned = self.told
        self.reports, self.has_news = self.reports or self.has_news, False

    def rejoin(self) -> None:
        """As a client does that was away for too long: it begins anew, with its old id."""
        self._begin_anew()

    def act(self) -> None:
        """As a client at work does: heartbeats until there is nothing new to report."""
        for _ in range(3):
            self.heartbeat()
            if self.owned == self.told and not (self.is_terse and self.has_news):
                break
            self.acknowledge()

    def subscribe(self, *, topics: tuple[str, ...] | None = None, regex: str | None = None) -> None:
        self.topics, self.regex = topics, regex
        self.tells_all = True

    def leave(self, *, to_return: bool = False) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=-2 if to_return else -1,
            instance_id=self.instance_id,
        )
        ticket = self.world.ask(request, version=1)
        self._note(self.world.answers[ticket])
        self.die()

    def die(self) -> None:
        self.lives = False
        self.owned = self.told = frozenset()

    def _begin_anew(self) -> None:
        self.epoch = 0
        self.owned = self.told = frozenset()
        self.has_news = self.reports = False

    def _owned_on_the_wire(self) -> list[TopicPartitions]:
        topics: dict[TopicId, list[int]] = {}
        for topic_id, partition in sorted(self.owned if self.epoch else ()):
            topics.setdefault(topic_id, []).append(partition)
        return [TopicPartitions(topic_id=id_, partitions=ps) for id_, ps in topics.items()]

    def _take_in(self, reply: object) -> None:
        if not self._note(reply):
            return
        assert isinstance(reply, ConsumerGroupHeartbeatResponse)
        self.epoch, self.interval_ms = reply.member_epoch, reply.heartbeat_interval_ms
        if reply.assignment is not None:
            told = frozenset(
                TopicIdPartition(TopicId(bytes(topic.topic_id)), partition)
                for topic in reply.assignment.topic_partitions
                for partition in topic.partitions
            )
            self.has_news = self.has_news or told != self.told
            self.told = told

    def _note(self, reply: object) -> bool:
        """Whether all went well."""
        if isinstance(reply, NotDone):
            self.tells_all = True
            return False
        assert isinstance(reply, ConsumerGroupHeartbeatResponse)
        self.last_code = ErrorCode(reply.error_code)
        self.last_message = reply.error_message
        if self.last_code in LOST:
            self._begin_anew()
        elif self.last_code not in (ErrorCode.NONE, *TRY_AGAIN):
            self.die()
        return self.last_code is ErrorCode.NONE
