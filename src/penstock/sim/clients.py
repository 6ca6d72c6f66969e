"""The simulated clients: our own producer, consumer and admin, each a process that may crash.

What they do comes from the seed; what they are told goes into the history. Every call has a
deadline in virtual time, far beyond what a healthy cluster or its own time-outs could need.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from random import Random
from typing import TypeVar

from penstock.client.admin.admin import Admin, NewTopic
from penstock.client.admin.configs import Change, Resource, alter_configs
from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.errors import ClientError, Refused
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Delivery, Producer, ProducerRules
from penstock.model.configs import Operation, ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.records.compression import Codec
from penstock.records.errors import CorruptBatch
from penstock.sim.clock import SimClock
from penstock.sim.errors import Violation
from penstock.sim.history import History, Sent
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.network import SimNetwork
from penstock.sim.one_node import ADDRESS
from penstock.sim.scenario import Scenario
from penstock.sim.trace import Trace
from penstock.sim.wire import Wire

Result = TypeVar("Result")

CALL_MS_MAX = 180_000
CLUSTER_RULES = ClusterRules(
    connect_ms_max=3_000, request_ms_max=10_000, backoff_ms=50, topic_ms_max=2_000
)
DELIVERY_MS_MAX = 40_000
KEYS = 4
TOMBSTONES = 0.25  # of the records of a compacted topic


class Laboratory:
    """What all clients of a simulation share."""

    def __init__(
        self,
        *,
        scenario: Scenario,
        clock: SimClock,
        wire: Wire,
        trace: Trace,
        history: History,
    ) -> None:
        self.scenario = scenario
        self.clock = clock
        self.wire = wire
        self.trace = trace
        self.history = history
        self.ending = False  # readers and the admin have seen enough

    @asynccontextmanager
    async def cluster(self, name: str, kill_switch: KillSwitch) -> AsyncIterator[Cluster]:
        network = SimNetwork(self.wire, kill_switch, name)
        async with Cluster(network, self.clock, [ADDRESS], rules=CLUSTER_RULES) as cluster:
            yield cluster


async def answered(name: str, what: str, call: Awaitable[Result]) -> Result:
    """The outcome of a call of a client, which must come one way or the other."""
    try:
        async with asyncio.timeout(CALL_MS_MAX / 1000):
            return await call
    except TimeoutError:
        raise Violation("answers", f"{name}: {what} has no end after {CALL_MS_MAX} ms") from None


async def produce(lab: Laboratory, name: str, kill_switch: KillSwitch, chance: Random) -> None:
    """Sends keyed records at some pace, and waits for what became of them."""
    scenario, history, trace = lab.scenario, lab.history, lab.trace
    pause_ms = scenario.duration_ms / scenario.records_each
    async with lab.cluster(name, kill_switch) as cluster:
        producer = Producer(cluster, rules=_producer_rules(scenario, chance))
        async with producer:
            for number in range(scenario.records_each):
                topic = chance.choice(scenario.topics)
                deletes = topic.is_compacted and chance.random() < TOMBSTONES
                sent = history.send(
                    producer=name,
                    number=number,
                    topic=topic.name,
                    key=b"key-%d" % chance.randrange(KEYS),
                    value_bytes=(None if deletes else chance.randint(0, scenario.value_bytes_max)),
                )
                try:
                    delivery = await answered(name, "send", _send(producer, sent))
                except ClientError as error:
                    trace.note(name, f"cannot send {sent.name}: {error}")
                else:
                    _note_outcome(lab, name, sent, delivery)
                if chance.random() < 0.7:
                    await asyncio.sleep(chance.random() * 2 * pause_ms / 1000)
                if chance.random() < 0.05:
                    await answered(name, "flush", producer.flush())
            await answered(name, "flush", producer.flush())
            trace.note(name, "has sent all")


async def read_along(lab: Laboratory, name: str, kill_switch: KillSwitch, chance: Random) -> None:
    """Reads all topics from the beginning, as records come, until the simulation ends."""
    partitions = [
        TopicPartition(topic.name, index)
        for topic in lab.scenario.topics
        for index in range(topic.partitions)
    ]
    rules = ConsumerRules(
        reset=Reset.EARLIEST,
        request_ms_max=CLUSTER_RULES.request_ms_max,
        fetch=FetchRules(partition_bytes_max=chance.choice((200, 2_000, 1 << 20))),
    )
    async with (
        lab.cluster(name, kill_switch) as cluster,
        Consumer(cluster, rules=rules) as consumer,
    ):
        await begin_at_start(lab, name, consumer, partitions)
        async for record in read_on(lab, name, consumer):
            lab.history.see(record)


async def begin_at_start(
    lab: Laboratory, name: str, consumer: Consumer, partitions: list[TopicPartition]
) -> None:
    while True:
        try:
            await answered(name, "assign", consumer.assign(partitions))
        except ClientError as error:
            lab.trace.note(name, f"cannot begin: {error}")
            await asyncio.sleep(0.2)
        else:
            consumer.seek_to_beginning()
            return


async def read_on(lab: Laboratory, name: str, consumer: Consumer) -> AsyncIterator[ConsumedRecord]:
    """Records as they come, until the simulation ends."""
    last: dict[TopicPartition, int] = {}
    while not lab.ending:
        try:
            records = await answered(name, "poll", consumer.poll(wait_ms=1_000))
        except (ClientError, CorruptBatch) as error:
            lab.trace.note(name, f"cannot read: {error}")
            await asyncio.sleep(1)
            continue
        for record in records:
            place = TopicPartition(record.topic, record.partition)
            yield record
            if record.offset <= last.get(place, -1):
                # A reset begins at the log's start again; it cannot jump back into the middle.
                lab.trace.note(name, f"starts over in {place} at {record.offset}")
            last[place] = record.offset


async def administer(lab: Laboratory, name: str, kill_switch: KillSwitch, chance: Random) -> None:
    """Makes and deletes topics, changes settings, deletes records, and writes a little."""
    async with lab.cluster(name, kill_switch) as cluster:
        admin = Admin(cluster)
        steps = (_make_topic, _drop_topic, _alter_topic, _delete_records)
        while not lab.ending:
            step = chance.choice(steps)
            try:
                await answered(name, step.__name__, step(lab, name, admin, chance))
            except ClientError as error:
                lab.trace.note(name, f"{step.__name__}: {error}")
            await asyncio.sleep(chance.random() * 0.6)


async def _make_topic(lab: Laboratory, name: str, admin: Admin, chance: Random) -> None:
    topic = f"temp-{chance.randrange(2)}"
    history = lab.history
    before, history.topics[topic] = history.topics.get(topic, False), None
    new = NewTopic(name=topic, partitions=1, settings={"internal.segment.bytes": "400"})
    told = (await admin.create_topics([new]))[topic]
    if isinstance(told, Refused):
        lab.trace.note(name, f"create {topic}: {told}")
        if told.code == ErrorCode.TOPIC_ALREADY_EXISTS:
            if before is False:
                raise Violation("metadata", f"{topic} was deleted, and is there again")
            history.topics[topic] = True
        return
    lab.trace.note(name, f"created {topic}")
    if before is True:
        raise Violation("metadata", f"{topic} was there, and could be created again")
    history.topics[topic] = True
    history.uncertain.discard(topic)
    history.settings[topic] = {}
    await _write_some(lab, name, admin.cluster, topic, chance)


async def _write_some(
    lab: Laboratory, name: str, cluster: Cluster, topic: str, chance: Random
) -> None:
    """Waits for the outcome, so that none of these is under way when the topic is deleted."""
    producer_name = f"{name}.{topic}.{lab.history.generations.get(topic, 0)}.{lab.clock.now_ms()}"
    async with Producer(cluster, rules=_producer_rules(lab.scenario, chance)) as producer:
        for number in range(chance.randint(1, 8)):
            sent = lab.history.send(
                producer=producer_name, number=number, topic=topic, key=b"key-0"
            )
            _note_outcome(lab, name, sent, await _send(producer, sent))


async def _drop_topic(lab: Laboratory, name: str, admin: Admin, chance: Random) -> None:
    topic = f"temp-{chance.randrange(2)}"
    history = lab.history
    before, history.topics[topic] = history.topics.get(topic, False), None
    history.topic_ends(topic)
    history.settings.pop(topic, None)
    told = (await admin.delete_topics([topic]))[topic]
    if told is None:
        lab.trace.note(name, f"deleted {topic}")
        if before is False:
            raise Violation("metadata", f"{topic} was deleted, and could be deleted again")
        history.topics[topic] = False
        return
    lab.trace.note(name, f"delete {topic}: {told}")
    if told.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        if before is True:
            raise Violation("metadata", f"{topic} was created, and is not there")
        history.topics[topic] = False


async def _alter_topic(lab: Laboratory, name: str, admin: Admin, chance: Random) -> None:
    topic = chance.choice(lab.scenario.topics).name
    value = str(chance.choice((300, 600, 1_500)))
    settings = lab.history.settings.setdefault(topic, {})
    settings["internal.segment.bytes"] = None
    change = Change(name="internal.segment.bytes", operation=Operation.SET, value=value)
    resource = Resource(ResourceKind.TOPIC, topic)
    told = (await alter_configs(admin.cluster, {resource: [change]}))[resource]
    lab.trace.note(name, f"segments of {topic} have {value} bytes: {told or 'done'}")
    if told is None:
        settings["internal.segment.bytes"] = value


async def _delete_records(lab: Laboratory, name: str, admin: Admin, chance: Random) -> None:
    topic = chance.choice([one for one in lab.scenario.topics if not one.is_compacted])
    place = TopicPartition(topic.name, chance.randrange(topic.partitions))
    history = lab.history.of(place)
    offset = Offset(chance.randint(0, max(history.acked, default=0) + 1))
    history.deletion_asked = max(history.deletion_asked, offset)
    told = (await admin.delete_records({place: offset}))[place]
    lab.trace.note(name, f"delete records of {place} below {offset}: {told}")
    if not isinstance(told, Refused):
        if told < offset:
            raise Violation("deletion", f"{place} begins at {told} after a deletion below {offset}")
        history.deletion_acked = max(history.deletion_acked, offset)


async def _send(producer: Producer, sent: Sent) -> Delivery:
    return await producer.send(sent.topic, sent.value, key=sent.key, headers=sent.headers)


def _note_outcome(lab: Laboratory, name: str, sent: Sent, delivery: Delivery) -> None:
    def settled(outcome: Delivery) -> None:
        if outcome.cancelled():
            return
        error = outcome.exception()
        if error is not None:
            lab.trace.note(name, f"gave up {sent.name}: {error}")
            return
        told = outcome.result()
        lab.trace.note(name, f"acked {sent.name} at {told.topic}-{told.partition}@{told.offset}")
        lab.history.ack(sent, TopicPartition(told.topic, told.partition), told.offset)

    delivery.add_done_callback(settled)


def _producer_rules(scenario: Scenario, chance: Random) -> ProducerRules:
    return ProducerRules(
        request_ms_max=CLUSTER_RULES.request_ms_max,
        batches=BatchRules(
            codec=Codec(scenario.codec),
            linger_ms=chance.choice((0, 5, 50)),
            batch_bytes_max=chance.choice((150, 400, 16_384)),
            delivery_ms_max=DELIVERY_MS_MAX,
            backoff_ms=50,
        ),
    )
