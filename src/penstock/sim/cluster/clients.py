"""Clients of a simulated cluster that change topics and produce, until told to end.

Each is a process on a machine of its own, which partitions of the network touch, and nothing else.
What it is told goes into the history.
"""

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import Protocol

from penstock.client.admin.admin import Admin, NewTopic
from penstock.client.admin.configs import Change, Resource, alter_configs
from penstock.client.network.channel import Channel
from penstock.client.network.cluster import AnyReply, Cluster, ClusterRules, Lane
from penstock.client.network.errors import ClientError, Refused
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.pending_batch import Delivered
from penstock.client.produce.producer import Delivery, Producer, ProducerRules
from penstock.metadata.image.image import Image
from penstock.model.configs import Operation, ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.sim.cluster.history import ClusterHistory, Presence, TopicHistory
from penstock.sim.cluster.layout import address
from penstock.sim.cluster.scenario import ORDERS, ClusterScenario
from penstock.sim.errors import Violation
from penstock.sim.trace import Trace
from penstock.wire.definition import Message
from penstock.wire.messages.metadata import MetadataResponse
from penstock.world.ports import World

ADMIN_RULES = ClusterRules(
    connect_ms_max=2_000, request_ms_max=5_000, backoff_ms=50, topic_ms_max=2_000
)
CLIENT_RULES = ClusterRules(
    connect_ms_max=3_000, request_ms_max=6_000, backoff_ms=100, topic_ms_max=2_000
)
PRODUCER_RULES = ProducerRules(
    request_ms_max=4_000,
    block_ms_max=4_000,
    batches=BatchRules(linger_ms=5, delivery_ms_max=12_000, backoff_ms=100),
)
# An answer that took nearly as long as its request may take need not be seen in the node's image.
SHOWN_US_MAX = ADMIN_RULES.request_ms_max * 1000 * 9 // 10
TOPICS_MAX = 4  # of one admin, at one time
PARTITIONS_MAX = 4
RACE_MS = 4_000  # how often there is a new topic that all admins try to create
SETTINGS = ("retention.ms", "max.message.bytes", "segment.ms")
# Also of retention, in ms: longer than all jumps of a clock together, or records would expire.
VALUE_MIN = 100_000_000


class View(Protocol):
    """What a simulation can see and no client."""

    def now_us(self) -> int: ...

    def image_of(self, host: str) -> Image | None:
        """The image of a node."""

    def acked(self, place: TopicPartition, offset: int, *, sent_us: int) -> None:
        """A client is told that its record has this offset."""


class WatchedCluster(Cluster):
    """A client that looks closely at what it is told: each leader is a broker that it can reach."""

    def _accept(self, reply: MetadataResponse, *, all_topics: bool) -> None:
        brokers = {broker.node_id for broker in reply.brokers}
        for topic in reply.topics:
            for partition in topic.partitions:
                if partition.leader_id >= 0 and partition.leader_id not in brokers:
                    raise Violation(
                        "fenced leader", f"a client is told that {topic.name}-"
                        f"{partition.partition_index} is led by broker {partition.leader_id}, and"
                        f" that the brokers are {sorted(brokers)}",
                    )  # fmt: skip
        super()._accept(reply, all_topics=all_topics)


class ThroughOneNode(WatchedCluster):
    """A client that asks one node for everything, so that this one has to forward it."""

    async def any_channel(self, *, avoid: Collection[NodeId] = ()) -> Channel:
        return await self._channel_to(self.bootstrap[0], Lane.QUESTIONS)

    async def ask_controller(self, request: Message, reply_type: type[AnyReply]) -> AnyReply:
        return await self.ask_any(request, reply_type)


class Client:
    """What the clients of a cluster have in common."""

    def __init__(
        self, name: str, hosts: tuple[str, ...], *, history: ClusterHistory, trace: Trace,
        chance: Random, view: View, scenario: ClusterScenario,
    ) -> None:  # fmt: skip
        self.name = name
        self.ending = False
        self.hosts = hosts  # of nodes
        self.history = history
        self.trace = trace
        self.chance = chance
        self.view = view
        self.scenario = scenario
        self._values = VALUE_MIN

    async def main(self, world: World) -> None:
        raise NotImplementedError

    def connected(self, world: World) -> WatchedCluster:
        """To all nodes, while it is entered."""
        bootstrap = [address(host) for host in self.hosts]
        return WatchedCluster(world.network, world.clock, bootstrap, rules=CLIENT_RULES)

    def fresh_value(self) -> int:
        """One that this client has not used before."""
        self._values += 1
        return self._values

    def note(self, what: str) -> None:
        self.trace.note(self.name, what)

    def _record_acked(self, topic: str, told: Delivered, value: bytes, sent_us: int) -> None:
        place = TopicPartition(topic, told.partition)
        if told.offset is None:
            self.history.acked_somewhere(place, value)
            return
        self.history.acked(place, told.offset, value)
        self.view.acked(place, told.offset, sent_us=sent_us)


class AdminClient(Client):
    """Creates, changes and deletes topics of its own, each time through another node."""

    async def main(self, world: World) -> None:
        async with AsyncExitStack() as stack:
            nodes = {
                host: await stack.enter_async_context(
                    ThroughOneNode(world.network, world.clock, [address(host)], rules=ADMIN_RULES)
                )
                for host in self.hosts
            }
            while not self.ending:
                host = self.chance.choice(self.hosts)
                try:
                    await self._change_something(host, nodes[host])
                except ClientError as error:
                    self.note(f"through {host}: {error}")
                await asyncio.sleep(self.chance.uniform(0.1, 0.9))

    async def _change_something(self, host: str, cluster: Cluster) -> None:
        living = self.history.living(f"{self.name}-")
        drawn = self.chance.random()
        if drawn < 0.15:
            await self._race(cluster)
        elif not living or (drawn < 0.4 and len(living) < TOPICS_MAX):
            topic = await self._create(host, cluster)
            if topic is not None and self.chance.random() < 0.4:
                await self._write_to(cluster, topic)
        elif drawn < 0.55 or len(living) >= TOPICS_MAX:
            await self._delete(host, cluster, self.chance.choice(living))
        elif drawn < 0.7:
            await self._add_partitions(host, cluster, self.chance.choice(living))
        elif drawn < 0.9:
            await self._alter(host, cluster, self.chance.choice(living))
        else:
            await self._write_to(cluster, self.chance.choice(living))

    async def _race(self, cluster: Cluster) -> None:
        """Only one of those who create a topic is told that it has done so."""
        name = f"race-{cluster.clock.now_ms() // RACE_MS % 1_000_000}"
        new = NewTopic(name=name, partitions=1, replicas=self.scenario.replicas)
        told = (await Admin(cluster).create_topics([new]))[name]
        if not isinstance(told, Refused):
            self.note(f"created {name}")
            self.history.created_by(name, self.name)

    async def _create(self, host: str, cluster: Cluster) -> TopicHistory | None:
        """The topic, if it was created for certain."""
        topic = self._topic_to_create()
        topic.creations += 1
        new = NewTopic(
            name=topic.name,
            partitions=topic.partitions,
            replicas=topic.replicas,
            settings=topic.settings,
        )
        asked_us = self.view.now_us()
        told = (await Admin(cluster).create_topics([new]))[topic.name]
        if isinstance(told, Refused):
            self.note(f"create {topic.name} through {host}: {told}")
            if told.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                topic.presence = Presence.THERE  # an earlier request was done after all
            return None
        topic.presence, topic.topic_id = Presence.THERE, told
        self._acked(f"created {topic.name} through {host}")
        image = self._image_shown(host, asked_us)
        if image is not None:
            found = image.topics_by_name.get(topic.name)
            if found is None or found.topic_id != told:
                raise Violation(
                    "image", f"{topic.name} was created through {host}, whose image lacks it"
                )
        return topic

    def _topic_to_create(self) -> TopicHistory:
        """A new one, or one of those whose creation has no certain answer."""
        own = [
            topic
            for topic in self.history.topics.values()
            if topic.name.startswith(f"{self.name}-")
        ]
        asked = [topic for topic in own if topic.presence is Presence.ASKED]
        if asked and self.chance.random() < 0.5:
            return self.chance.choice(asked)
        partitions, replicas = self.chance.randint(1, 3), self.scenario.replicas
        if replicas > 1:
            replicas = self.chance.choice((1, replicas))
        settings = self.scenario.ack_settings(replicas)
        settings["retention.ms"] = str(self.fresh_value())
        topic = TopicHistory(
            name=f"{self.name}-{len(own)}",
            partitions=partitions,
            replicas=replicas,
            settings=settings,
        )
        self.history.topics[topic.name] = topic
        return topic

    async def _delete(self, host: str, cluster: Cluster, topic: TopicHistory) -> None:
        topic.presence = Presence.LEAVING
        asked_us = self.view.now_us()
        told = (await Admin(cluster).delete_topics([topic.name]))[topic.name]
        if told is not None:
            self.note(f"delete {topic.name} through {host}: {told}")
            return
        topic.presence = Presence.GONE
        self._acked(f"deleted {topic.name} through {host}")
        image = self._image_shown(host, asked_us)
        if image is not None and topic.must_be_gone and topic.name in image.topics_by_name:
            raise Violation(
                "image", f"{topic.name} was deleted through {host}, whose image still has it"
            )

    async def _add_partitions(self, host: str, cluster: Cluster, topic: TopicHistory) -> None:
        count = max(topic.partition_counts) + 1
        if count > PARTITIONS_MAX:
            return
        topic.partitions_asked.add(count)
        asked_us = self.view.now_us()
        told = (await Admin(cluster).create_partitions({topic.name: count}))[topic.name]
        if told is not None:
            self.note(f"{topic.name} to {count} partitions through {host}: {told}")
            return
        topic.partitions = count
        self._acked(f"{topic.name} has {count} partitions, through {host}")
        image = self._image_shown(host, asked_us)
        if image is not None:
            found = image.topics_by_name.get(topic.name)
            if found is None or len(found.partitions) < count:
                raise Violation(
                    "image", f"{topic.name} got {count} partitions through {host}, whose image"
                    " does not show them",
                )  # fmt: skip

    async def _alter(self, host: str, cluster: Cluster, topic: TopicHistory) -> None:
        name, value = self.chance.choice(SETTINGS), str(self.fresh_value())
        asked = topic.settings_asked.setdefault(name, set())
        asked.add(value)
        resource = Resource(ResourceKind.TOPIC, topic.name)
        change = Change(name=name, operation=Operation.SET, value=value)
        asked_us = self.view.now_us()
        told = (await alter_configs(cluster, {resource: [change]}))[resource]
        if told is not None:
            self.note(f"{name}={value} of {topic.name} through {host}: {told}")
            return
        asked.discard(value)
        topic.settings[name] = value
        self._acked(f"{name}={value} of {topic.name}, through {host}")
        image = self._image_shown(host, asked_us)
        if image is not None:
            found = image.config(ResourceKind.TOPIC, topic.name).get(name)
            if found not in topic.values_of(name):
                raise Violation(
                    "image", f"{name} of {topic.name} was set to {value} through {host}, whose"
                    f" image has {found}",
                )  # fmt: skip

    async def _write_to(self, cluster: Cluster, topic: TopicHistory) -> None:
        """A record that is acked before the next change of the topic."""
        async with Producer(cluster, rules=PRODUCER_RULES) as producer:
            value = b"%d of %s" % (self.fresh_value(), self.name.encode())
            partition = self.chance.randrange(topic.partitions)
            sent_us = self.view.now_us()
            told = await (await producer.send(topic.name, value, partition=partition))
            self._record_acked(topic.name, told, value, sent_us)

    def _acked(self, what: str) -> None:
        self.history.admin_acks += 1
        self.note(what)

    def _image_shown(self, host: str, asked_us: int) -> Image | None:
        """The image of a node that has answered and must show what was done; None if it need not:
        a node that is cut off from the quorum passes on the controller's answer when time is up.
        """
        if self.view.now_us() - asked_us >= SHOWN_US_MAX:
            return None
        return self.view.image_of(host)


class WriterClient(Client):
    """Produces to all partitions of one topic, without waiting for one ack before the next."""

    async def main(self, world: World) -> None:
        async with self.connected(world) as cluster:
            while not self.ending:
                try:
                    async with Producer(cluster, rules=PRODUCER_RULES) as producer:
                        await self._write(producer)
                except ClientError as error:
                    self.note(f"cannot send: {error}")
                    await asyncio.sleep(0.2)

    async def _write(self, producer: Producer) -> None:
        while not self.ending:
            value = b"%d of %s" % (self.fresh_value(), self.name.encode())
            view = await producer.cluster.need([ORDERS])
            partition = self.chance.randrange(len(view.topics[ORDERS].partitions))
            delivery = await producer.send(ORDERS, value, partition=partition)
            delivery.add_done_callback(partial(self._settled, value, self.view.now_us()))
            await asyncio.sleep(self.chance.uniform(0.1, 0.7))

    def _settled(self, value: bytes, sent_us: int, delivery: Delivery) -> None:
        if delivery.cancelled():
            return
        error = delivery.exception()
        if error is not None:
            self.note(f"gave up {value!r}: {error}")
            return
        self._record_acked(ORDERS, delivery.result(), value, sent_us)
