"""Topics, settings, records and log directories, asked of a broker."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.admin.configs import Change, Resource, alter_configs, describe_configs
from penstock.client.consume.offsets import When
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.errors import Refused, Unreachable
from penstock.client.network.routing import TopicView
from penstock.client.produce.producer import Producer
from penstock.model.configs import Operation, ResourceKind, Source
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import Offset
from penstock.testing import Broker
from penstock.world.clock import RealClock
from penstock.world.ports import Address
from penstock.world.tcp import TcpNetwork

Run = Callable[[Callable[[Cluster], Any]], Any]


def code_of(result: object) -> ErrorCode:
    assert isinstance(result, Refused), result
    return result.code


def test_topic_is_created_described_grown_and_deleted(with_cluster: Run) -> None:
    async def work(cluster: Cluster) -> None:
        admin = Admin(cluster)
        first_refusal((await admin.create_topics([NewTopic(name="a", partitions=2)])).values())
        described = (await admin.describe_topics(["a"]))["a"]
        assert isinstance(described, TopicView)
        assert [partition.leader for partition in described.partitions] == [1, 1]
        assert await admin.create_partitions({"a": 5}) == {"a": None}
        assert len((await admin.topics()).topics["a"].partitions) == 5
        assert await admin.delete_topics(["a"]) == {"a": None}
        assert "a" not in (await admin.topics()).topics

    with_cluster(work)


def test_each_topic_has_its_own_answer(penstock: Broker, with_cluster: Run) -> None:
    there = penstock.topic("there")

    async def work(cluster: Cluster) -> None:
        admin = Admin(cluster)
        wanted = [NewTopic(name=there), NewTopic(name="a/b"), NewTopic(name="new")]
        created = await admin.create_topics(wanted)
        assert code_of(created[there]) == ErrorCode.TOPIC_ALREADY_EXISTS
        assert code_of(created["a/b"]) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert isinstance(created["new"], bytes)
        with pytest.raises(Refused):
            first_refusal(created.values())
        deleted = await admin.delete_topics(["new", "nope"])
        assert deleted["new"] is None
        assert code_of(deleted["nope"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        described = await admin.describe_topics([there, "nope"])
        assert code_of(described["nope"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        grown = await admin.create_partitions({there: 1})
        assert code_of(grown[there]) == ErrorCode.INVALID_PARTITIONS

    with_cluster(work)


def test_trial_run_creates_nothing(with_cluster: Run) -> None:
    async def work(cluster: Cluster) -> None:
        admin = Admin(cluster)
        tried = await admin.create_topics([NewTopic(name="a")], validate_only=True)
        first_refusal(tried.values())
        assert "a" not in (await admin.topics()).topics

    with_cluster(work)


def test_settings_are_altered_one_by_one(penstock: Broker, with_cluster: Run) -> None:
    topic = Resource(ResourceKind.TOPIC, penstock.topic(retention_ms=1_000, segment_ms=2_000))

    async def own_settings(cluster: Cluster) -> dict[str, str | None]:
        entries = (await describe_configs(cluster, [topic]))[topic]
        assert isinstance(entries, list)
        return {e.name: e.value for e in entries if e.source is Source.TOPIC}

    async def work(cluster: Cluster) -> None:
        assert await own_settings(cluster) == {"retention.ms": "1000", "segment.ms": "2000"}
        changes = [
            Change(name="retention.ms", operation=Operation.SET, value="5000"),
            Change(name="segment.ms", operation=Operation.DELETE),
        ]
        assert await alter_configs(cluster, {topic: changes}) == {topic: None}
        assert await own_settings(cluster) == {"retention.ms": "5000"}
        wrong = [Change(name="retention.ms", operation=Operation.SET, value="long")]
        refused = (await alter_configs(cluster, {topic: wrong}))[topic]
        assert code_of(refused) == ErrorCode.INVALID_CONFIG

    with_cluster(work)


def test_broker_answers_for_its_own_settings(with_cluster: Run) -> None:
    async def work(cluster: Cluster) -> None:
        broker = Resource(ResourceKind.BROKER, "1")
        entries = (await describe_configs(cluster, [broker]))[broker]
        assert isinstance(entries, list)
        assert {"num.partitions", "log.retention.hours"} <= {entry.name for entry in entries}

    with_cluster(work)


def test_cluster_is_described(penstock: Broker, with_cluster: Run) -> None:
    async def work(cluster: Cluster) -> None:
        described = await Admin(cluster).describe_cluster()
        (broker,) = described.brokers
        assert f"{broker.host}:{broker.port}" == penstock.bootstrap
        assert broker.node_id == NodeId(1)

    with_cluster(work)


def test_offsets_and_sizes_follow_what_is_written_and_deleted(
    penstock: Broker, with_cluster: Run
) -> None:
    place = TopicPartition(penstock.topic(), 0)

    async def work(cluster: Cluster) -> None:
        admin = Admin(cluster)
        async with Producer(cluster) as producer:
            for _ in range(10):
                await producer.send(place.topic, b"x" * 100)
        assert await admin.delete_records({place: Offset(4)}) == {place: 4}
        for when, expected in ((When.EARLIEST, 4), (When.LATEST, 10)):
            listed = (await admin.list_offsets({place: when}))[place]
            assert not isinstance(listed, Refused)
            assert listed.offset == expected
        beyond = await admin.delete_records({place: Offset(99)})
        assert code_of(beyond[place]) == ErrorCode.OFFSET_OUT_OF_RANGE
        directories = (await admin.log_directories())[NodeId(1)]
        assert isinstance(directories, list)
        sizes = {r.partition: r.size_bytes for d in directories for r in d.replicas}
        assert sizes[place] > 1_000

    with_cluster(work)


def test_partition_that_is_not_there_has_no_offsets(penstock: Broker, with_cluster: Run) -> None:
    missing = TopicPartition(penstock.topic(), 9)

    async def work(cluster: Cluster) -> None:
        listed = await Admin(cluster).list_offsets({missing: When.LATEST})
        assert code_of(listed[missing]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_cluster(work)


def test_nobody_to_talk_to_is_told_with_every_reason() -> None:
    # Port 0 is never listened on; a host under .invalid never has an address.
    addresses = [Address(host="127.0.0.1", port=0), Address(host="nowhere.invalid", port=9092)]

    async def work() -> None:
        rules = ClusterRules(connect_ms_max=2_000)
        async with Cluster(TcpNetwork(), RealClock(), addresses, rules=rules) as cluster:
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1:0.*nowhere\.invalid"):
                await cluster.any_channel()

    asyncio.run(work())
