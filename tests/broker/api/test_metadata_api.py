"""Metadata: what clients learn of brokers and topics, and topics made on the way."""

import asyncio

import pytest

from penstock.broker.api.create_topics import API as CREATE_TOPICS
from penstock.broker.api.metadata import API
from penstock.model.error import ErrorCode
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from rig.control import Control, run_with
from rig.memory_disk import MemoryDisk


async def create(control: Control, name: str, partitions: int = 1) -> bytes:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    reply = await control.ask(
        CREATE_TOPICS, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse
    )
    return reply.topics[0].topic_id


async def metadata(
    control: Control,
    *names: str,
    version: int | None = None,
    create_missing: bool = False,
    listener: str = "PLAINTEXT",
) -> MetadataResponse:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create_missing,
    )
    return await control.ask(API, request, MetadataResponse, version=version, listener=listener)


async def one(control: Control, name: str, **asked: bool) -> MetadataResponseTopic:
    (topic,) = (await metadata(control, name, **asked)).topics
    return topic


@pytest.mark.parametrize("version", range(API.versions.min, API.versions.max + 1))
def test_every_version_tells_brokers_and_topics(version: int) -> None:
    async def scenario(control: Control) -> None:
        topic_id = await create(control, "orders", partitions=2)
        reply = await metadata(control, "orders", version=version)
        (broker,) = reply.brokers
        assert (broker.node_id, broker.host, broker.port) == (1, "localhost", 9092)
        (topic,) = reply.topics
        assert (topic.error_code, topic.name) == (ErrorCode.NONE, "orders")
        partitions = [(part.partition_index, part.leader_id) for part in topic.partitions]
        assert partitions == [(0, 1), (1, 1)]
        assert [part.replica_nodes for part in topic.partitions] == [[1], [1]]
        assert [part.isr_nodes for part in topic.partitions] == [[1], [1]]
        if version >= 1:
            assert reply.controller_id == 1
        if version >= 2:
            assert reply.cluster_id == "MkU3OEVBNTcwNTJENDM2Qg"
        if version >= 7:
            assert [part.leader_epoch for part in topic.partitions] == [0, 0]
        if version >= 10:
            assert topic.topic_id == topic_id

    run_with(MemoryDisk(), scenario)


@pytest.mark.parametrize(("version", "topics"), [(0, []), (1, None), (13, None)])
def test_who_asks_for_all_topics_gets_all(
    version: int, topics: list[MetadataRequestTopic] | None
) -> None:
    async def scenario(control: Control) -> None:
        for name in ("a", "b"):
            await create(control, name)
        request = MetadataRequest(topics=topics)
        reply = await control.ask(API, request, MetadataResponse, version=version)
        assert [topic.name for topic in reply.topics] == ["a", "b"]

    run_with(MemoryDisk(), scenario)


def test_who_asks_for_no_topic_gets_the_brokers_alone() -> None:
    async def scenario(control: Control) -> None:
        await create(control, "a")
        reply = await metadata(control, version=1)
        assert reply.topics == []
        assert len(reply.brokers) == 1

    run_with(MemoryDisk(), scenario)


def test_a_topic_is_found_by_its_id() -> None:
    async def scenario(control: Control) -> None:
        topic_id = await create(control, "orders")
        request = MetadataRequest(
            topics=[
                MetadataRequestTopic(topic_id=topic_id, name=None),
                MetadataRequestTopic(topic_id=b"?" * 16, name=None),
            ]
        )
        reply = await control.ask(API, request, MetadataResponse)
        found, unknown = reply.topics
        assert (found.error_code, found.name) == (ErrorCode.NONE, "orders")
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert unknown.topic_id == b"?" * 16

    run_with(MemoryDisk(), scenario)


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("name", ["", "orders", "payments", "no-such-topic", "a/b"])
def test_an_id_decides_whatever_name_is_sent_with_it(name: str, version: int) -> None:
    async def scenario(control: Control) -> None:
        topic_id = await create(control, "orders")
        await create(control, "payments")
        asked = [
            MetadataRequestTopic(topic_id=topic_id, name=name),
            MetadataRequestTopic(topic_id=b"?" * 16, name=name),
        ]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=True)
        reply = await control.ask(API, request, MetadataResponse, version=version)
        assert [(topic.error_code, topic.name, topic.topic_id) for topic in reply.topics] == [
            (ErrorCode.NONE, "orders", topic_id),
            (ErrorCode.UNKNOWN_TOPIC_ID, None, b"?" * 16),
        ]
        assert set(control.image.topics_by_name) == {"orders", "payments"}

    run_with(MemoryDisk(), scenario)


def test_a_topic_whose_id_comes_with_many_names_is_told_once() -> None:
    async def scenario(control: Control) -> None:
        topic_id = await create(control, "orders")
        names = ("", None, "orders", "payments")
        asked = [MetadataRequestTopic(topic_id=topic_id, name=name) for name in names]
        reply = await control.ask(API, MetadataRequest(topics=asked), MetadataResponse)
        assert [topic.name for topic in reply.topics] == ["orders"]

    run_with(MemoryDisk(), scenario)


def test_ids_in_versions_that_have_no_use_for_them_are_refused() -> None:
    async def scenario(control: Control) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"?" * 16, name="x")])
        reply = await control.ask(API, request, MetadataResponse, version=10)
        assert reply.topics[0].error_code == ErrorCode.INVALID_REQUEST

    run_with(MemoryDisk(), scenario)


def test_a_missing_topic_is_created_when_setting_and_request_allow_it() -> None:
    async def scenario(control: Control) -> None:
        topic = await one(control, "orders", create_missing=True)
        assert topic.error_code == ErrorCode.NONE
        assert len(topic.partitions) == 3
        assert "orders" in control.image.topics_by_name

    run_with(MemoryDisk(), scenario, num_partitions="3")


def test_two_clients_that_ask_at_once_get_the_same_new_topic() -> None:
    async def scenario(control: Control) -> None:
        replies = await asyncio.gather(
            *(one(control, "orders", create_missing=True) for _ in range(5))
        )
        assert {topic.error_code for topic in replies} == {ErrorCode.NONE}
        assert len({topic.topic_id for topic in replies}) == 1

    run_with(MemoryDisk(), scenario)


@pytest.mark.parametrize(("request_allows", "setting"), [(False, "true"), (True, "false")])
def test_a_missing_topic_is_unknown_when_one_of_them_forbids_it(
    request_allows: bool, setting: str
) -> None:
    async def scenario(control: Control) -> None:
        topic = await one(control, "orders", create_missing=request_allows)
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert control.image.topics_by_name == {}

    run_with(MemoryDisk(), scenario, auto_create_topics_enable=setting)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__consumer_offsets", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__cluster_metadata", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_names_that_clients_may_not_make_up_are_not_created(name: str, code: ErrorCode) -> None:
    async def scenario(control: Control) -> None:
        topic = await one(control, name, create_missing=True)
        assert (topic.error_code, topic.name) == (code, name)
        assert control.image.topics_by_name == {}

    run_with(MemoryDisk(), scenario)


def test_a_topic_that_the_controller_refuses_says_why() -> None:
    async def scenario(control: Control) -> None:
        topic = await one(control, "orders", create_missing=True)
        assert topic.error_code == ErrorCode.INVALID_REPLICATION_FACTOR

    run_with(MemoryDisk(), scenario, default_replication_factor="3")


def test_a_listener_without_brokers_finds_no_leader() -> None:
    async def scenario(control: Control) -> None:
        await create(control, "orders")
        for version, code in (
            (13, ErrorCode.LISTENER_NOT_FOUND),
            (5, ErrorCode.LEADER_NOT_AVAILABLE),
        ):
            reply = await metadata(control, "orders", version=version, listener="OTHER")
            assert reply.brokers == []
            (partition,) = reply.topics[0].partitions
            assert (partition.error_code, partition.leader_id) == (code, -1)

    run_with(MemoryDisk(), scenario)


def test_operations_are_told_when_asked_for() -> None:
    async def scenario(control: Control) -> None:
        await create(control, "orders")
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name="orders")],
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        reply = await control.ask(API, request, MetadataResponse, version=8)
        assert reply.topics[0].topic_authorized_operations == 0b1101_1111_1000
        assert reply.cluster_authorized_operations == 0b1_1111_1010_0000
        request.include_topic_authorized_operations = False
        reply = await control.ask(API, request, MetadataResponse, version=8)
        assert reply.topics[0].topic_authorized_operations == -(2**31)

    run_with(MemoryDisk(), scenario)


def test_a_topic_named_many_times_is_told_once() -> None:
    async def scenario(control: Control) -> None:
        await create(control, "orders")
        reply = await metadata(control, *["orders"] * 1000)
        assert [topic.name for topic in reply.topics] == ["orders"]

    run_with(MemoryDisk(), scenario)
