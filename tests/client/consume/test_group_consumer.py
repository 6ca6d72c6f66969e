"""Consumers that share topics, by both protocols, against a broker."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.client.admin.groups import GroupDescription, describe_groups
from penstock.client.consume.consumer import ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.group_consumer import (
    GroupConsumer,
    GroupProtocol,
    GroupRules,
    Listener,
)
from penstock.client.consume.group_offsets import Committed, committed_offsets
from penstock.client.consume.membership.assignors import Assignor
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused
from penstock.client.produce.producer import Producer
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.testing import Broker
from penstock.world.clock import RealClock
from penstock.world.entropy import RealEntropy
from penstock.world.tcp import TcpNetwork

Run = Callable[[Callable[[Cluster], Any]], Any]
READING = ConsumerRules(reset=Reset.EARLIEST, fetch=FetchRules(wait_ms_max=20))
KINDS = [
    pytest.param(GroupRules(protocol=GroupProtocol.CONSUMER, reading=READING), id="consumer"),
    pytest.param(
        GroupRules(protocol=GroupProtocol.CLASSIC, heartbeat_ms=100, reading=READING),
        id="cooperative-sticky",
    ),
    pytest.param(
        GroupRules(
            protocol=GroupProtocol.CLASSIC,
            assignor=Assignor.RANGE,
            heartbeat_ms=100,
            reading=READING,
        ),
        id="range",
    ),
]


@asynccontextmanager
async def own_cluster(broker: Broker) -> AsyncIterator[Cluster]:
    """Each member has connections of its own, as in a process of its own."""
    addresses, rules = parse_addresses(broker.bootstrap), ClusterRules(backoff_ms=5)
    async with Cluster(TcpNetwork(), RealClock(), addresses, rules=rules) as cluster:
        yield cluster


def consumer(
    cluster: Cluster, topic: str, rules: GroupRules, listener: Listener | None = None
) -> GroupConsumer:
    return GroupConsumer(
        cluster, "g", entropy=RealEntropy(), topics=(topic,), rules=rules, listener=listener
    )


async def write(cluster: Cluster, topic: str, numbers: range) -> None:
    async with Producer(cluster) as producer:
        for number in numbers:
            await producer.send(topic, b"%d" % number, key=b"%d" % number)


async def read(member: GroupConsumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < count:
        records = await member.poll(wait_ms=1_000, records_max=count - len(values))
        values += [record.value for record in records]
    return values


@pytest.mark.parametrize("rules", KINDS)
def test_members_share_a_topic_and_hand_over_without_reading_twice(
    penstock: Broker, rules: GroupRules
) -> None:
    topic = penstock.topic(partitions=4)
    seen: Counter[bytes | None] = Counter()
    news = asyncio.Event()

    async def live(member: GroupConsumer, until: asyncio.Event) -> None:
        while not until.is_set():
            seen.update([record.value for record in await member.poll(wait_ms=50)])
            news.set()

    async def wait_for(condition: Callable[[], bool]) -> None:
        while not condition():
            news.clear()
            await news.wait()

    async def work() -> None:
        async with own_cluster(penstock) as first, own_cluster(penstock) as second:
            stop_one, stop_two = asyncio.Event(), asyncio.Event()
            async with consumer(second, topic, rules) as two:
                async with consumer(first, topic, rules) as one:
                    tasks = [
                        asyncio.create_task(live(one, stop_one)),
                        asyncio.create_task(live(two, stop_two)),
                    ]
                    await write(first, topic, range(200))
                    await wait_for(lambda: len(one.assignment) == len(two.assignment) == 2)
                    await wait_for(lambda: len(seen) == 200)
                    stop_one.set()
                    await tasks[0]
                await write(first, topic, range(200, 300))
                await wait_for(lambda: len(two.assignment) == 4 and len(seen) == 300)
                stop_two.set()
                await tasks[1]

    asyncio.run(asyncio.wait_for(work(), 120))
    assert set(seen.values()) == {1}


@pytest.mark.parametrize("rules", KINDS)
def test_reading_goes_on_after_what_was_committed(
    penstock: Broker, with_cluster: Run, rules: GroupRules
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> list[list[bytes | None]]:
        await write(cluster, topic, range(30))
        got = []
        for count in (5, 7, 18):
            async with consumer(cluster, topic, rules) as member:
                got.append(await read(member, count))
        return got

    first, second, third = with_cluster(work)
    assert first + second + third == [b"%d" % number for number in range(30)]


@pytest.mark.parametrize("rules", KINDS)
def test_nothing_is_committed_for_who_fails_in_the_middle(
    penstock: Broker, with_cluster: Run, rules: GroupRules
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> list[bytes | None]:
        await write(cluster, topic, range(10))
        with pytest.raises(ZeroDivisionError):
            async with consumer(cluster, topic, rules) as member:
                await read(member, 5)
                raise ZeroDivisionError
        async with consumer(cluster, topic, rules) as member:
            return await read(member, 10)

    assert len(with_cluster(work)) == 10


def test_offsets_are_committed_by_hand(penstock: Broker, with_cluster: Run) -> None:
    topic = penstock.topic()
    place = TopicPartition(topic, 0)
    rules = GroupRules(auto_commit_ms=None, reading=READING)

    async def work(cluster: Cluster) -> list[dict[TopicPartition, Offset]]:
        await write(cluster, topic, range(10))
        found = []
        async with consumer(cluster, topic, rules) as member:
            await read(member, 6)
            found.append(await member.committed([place]))
            await member.commit()
            found.append(await member.committed([place]))
            await member.commit({place: Offset(2)})
            found.append(await member.committed([place]))
        return found

    assert with_cluster(work) == [{}, {place: 6}, {place: 2}]


def test_leader_epoch_of_the_last_record_is_committed_with_its_offset(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic()
    place = TopicPartition(topic, 0)
    rules = GroupRules(auto_commit_ms=None, reading=READING)

    async def work(cluster: Cluster) -> list[Any]:
        await write(cluster, topic, range(10))
        found: list[Committed | Refused] = []
        async with consumer(cluster, topic, rules) as member:
            await read(member, 6)
            for offsets in (None, {place: Offset(2)}):
                await member.commit(offsets)
                found.append((await committed_offsets(Coordinators(cluster), "g"))[place])
            epoch = cluster.view.topics[topic].partitions[0].leader_epoch
        return [*found, epoch]

    after_last, elsewhere, epoch = with_cluster(work)
    assert after_last == Committed(offset=Offset(6), leader_epoch=epoch)
    assert elsewhere == Committed(offset=Offset(2), leader_epoch=None)


def test_newest_protocol_is_taken_and_its_members_are_described(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic(partitions=2)

    async def work(cluster: Cluster) -> tuple[GroupDescription | Refused, ...]:
        await write(cluster, topic, range(1))
        coordinators = Coordinators(cluster)
        async with consumer(cluster, topic, GroupRules(reading=READING)) as member:
            await read(member, 1)
            within = (await describe_groups(coordinators, ["g"]))["g"]
        return within, (await describe_groups(coordinators, ["g"]))["g"]

    within, after = with_cluster(work)
    assert isinstance(within, GroupDescription) and isinstance(after, GroupDescription)
    assert within.kind.value == "consumer"
    [member] = within.members
    assert member.subscribed == (topic,)
    assert set(member.assigned) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    assert after.members == ()


@pytest.mark.parametrize("rules", KINDS)
def test_listener_is_told_of_what_comes_and_goes(
    penstock: Broker, with_cluster: Run, rules: GroupRules
) -> None:
    topic = penstock.topic(partitions=2)
    told: list[tuple[str, int]] = []

    async def assigned(partitions: tuple[TopicPartition, ...]) -> None:
        told.append(("assigned", len(partitions)))

    async def revoked(partitions: tuple[TopicPartition, ...]) -> None:
        told.append(("revoked", len(partitions)))

    async def work(cluster: Cluster) -> None:
        await write(cluster, topic, range(4))
        listener = Listener(assigned=assigned, revoked=revoked)
        async with consumer(cluster, topic, rules, listener) as member:
            await read(member, 4)

    with_cluster(work)
    assert told == [("assigned", 2), ("revoked", 2)]


def test_member_that_no_longer_polls_leaves_and_comes_back(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic()
    rules = GroupRules(poll_ms_max=300, auto_commit_ms=None, reading=READING)
    lost: list[tuple[TopicPartition, ...]] = []

    async def note(partitions: tuple[TopicPartition, ...]) -> None:
        lost.append(partitions)

    async def work(cluster: Cluster) -> list[bytes | None]:
        await write(cluster, topic, range(3))
        coordinators = Coordinators(cluster)
        async with consumer(cluster, topic, rules, Listener(lost=note)) as member:
            await read(member, 3)
            while True:
                described = (await describe_groups(coordinators, ["g"]))["g"]
                if isinstance(described, GroupDescription) and not described.members:
                    break
            return await read(member, 3)

    assert len(with_cluster(work)) == 3
    # More than once where the machine was busy for so long.
    assert set(lost) == {(TopicPartition(topic, 0),)}


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_who_is_no_member_any_more_takes_no_committed_offset_back(
    penstock: Broker, with_cluster: Run, protocol: GroupProtocol
) -> None:
    topic = penstock.topic()
    place = TopicPartition(topic, 0)
    late = GroupRules(protocol=protocol, poll_ms_max=300, auto_commit_ms=None, reading=READING)
    rules = GroupRules(protocol=protocol, reading=READING)

    async def work(cluster: Cluster) -> dict[TopicPartition, Offset]:
        await write(cluster, topic, range(6))
        coordinators = Coordinators(cluster)
        async with consumer(cluster, topic, late) as member:
            await read(member, 2)
            while True:
                described = (await describe_groups(coordinators, ["g"]))["g"]
                if isinstance(described, GroupDescription) and not described.members:
                    break
            async with own_cluster(penstock) as other, consumer(other, topic, rules) as second:
                await read(second, 6)
            with pytest.raises(Refused) as refused:
                await member.commit()
            assert refused.value.code == ErrorCode.UNKNOWN_MEMBER_ID
            return await member.committed([place])

    assert with_cluster(work) == {place: 6}


def test_membership_that_cannot_be_is_told_by_poll(penstock: Broker, with_cluster: Run) -> None:
    topic = penstock.topic()
    rules = GroupRules(server_assignor="no-such-assignor", reading=READING)

    async def work(cluster: Cluster) -> None:
        async with consumer(cluster, topic, rules) as member:
            await member.poll(wait_ms=5_000)

    with pytest.raises(Refused) as refused:
        with_cluster(work)
    assert refused.value.code == ErrorCode.UNSUPPORTED_ASSIGNOR
