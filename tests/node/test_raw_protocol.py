"""One client's whole conversation with a node, in raw frames on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.node.build import build
from penstock.node.config import NodeConfig
from penstock.node.lifecycle import Node
from penstock.records.batch import batches
from penstock.records.build import build_batch
from penstock.records.iterate import records_of
from penstock.records.record import Record
from penstock.wire.api import ApiKey
from penstock.wire.definition import Message
from penstock.wire.header import decode_correlation_id, decode_response
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.world.real import real_world
from rig.raw_serving import RawClient, request, run

Reply = TypeVar("Reply", bound=Message)


@asynccontextmanager
async def client_and_node(data: Path) -> AsyncIterator[tuple[RawClient, Node]]:
    config = NodeConfig(
        node_id=NodeId(1),
        data_directory=str(data),
        settings=parse_broker({"listeners": "PLAINTEXT://127.0.0.1:0"}),
    )
    world = real_world(inline=True)
    node = build(world, config)
    await node.start()
    stream = await world.network.connect(node.addresses[0])
    try:
        yield RawClient(stream), node
    finally:
        stream.close()
        await node.stop()


@asynccontextmanager
async def client_of_a_node(data: Path) -> AsyncIterator[RawClient]:
    async with client_and_node(data) as (client, _):
        yield client


async def ask(client: RawClient, message: Message, reply: type[Reply], version: int) -> Reply:
    await client.ask(message, 1, version=version)
    frame = await client.frame()
    assert frame is not None, "the node hung up"
    return decode_response(reply, version, frame)


async def create_topic(client: RawClient, name: str) -> bytes:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    message = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    (created,) = (await ask(client, message, CreateTopicsResponse, 7)).topics
    assert created.error_code == ErrorCode.NONE, created
    return created.topic_id


def produce_request(topic: str, value: bytes, *, acks: int) -> ProduceRequest:
    batch = build_batch([Record(b"key", value, timestamp_ms=1_700_000_000_000)])
    partition = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
    )


def fetch_request(topic: str, offset: int, *, wait_ms: int, min_bytes: int = 1) -> FetchRequest:
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1_000_000, current_leader_epoch=-1
    )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=1_000_000,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def values_in(reply: FetchResponse) -> list[bytes | None]:
    records = reply.responses[0].partitions[0].records
    assert records is not None
    return [record.value for batch in batches(records) for record in records_of(batch)]


def test_client_learns_produces_and_fetches(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with client_of_a_node(tmp_path) as client:
            hello = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
            versions = await ask(client, hello, ApiVersionsResponse, 4)
            ranges = {key.api_key: key for key in versions.api_keys}
            assert (ranges[ApiKey.PRODUCE].min_version, ranges[ApiKey.FETCH].max_version) == (0, 18)
            topic_id = await create_topic(client, "orders")
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
            metadata = await ask(client, asked, MetadataResponse, 12)
            assert metadata.topics[0].topic_id == topic_id
            assert metadata.topics[0].partitions[0].leader_id == 1
            produced = await ask(
                client, produce_request("orders", b"first", acks=-1), ProduceResponse, 9
            )
            answer = produced.responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
            fetched = await ask(client, fetch_request("orders", 0, wait_ms=0), FetchResponse, 12)
            assert values_in(fetched) == [b"first"]

    run(scenario())


def test_waiting_fetch_is_woken_by_a_produce_and_answers_in_its_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with client_of_a_node(tmp_path) as client:
            await create_topic(client, "orders")
            # Both on one connection: the produce is handled while the fetch before it waits.
            await client.ask(fetch_request("orders", 0, wait_ms=20_000), 1, version=12)
            await client.ask(produce_request("orders", b"news", acks=1), 2, version=9)
            first = await client.frame()
            assert first is not None
            assert decode_correlation_id(first) == 1
            assert values_in(decode_response(FetchResponse, 12, first)) == [b"news"]
            second = await client.frame()
            assert second is not None
            assert decode_correlation_id(second) == 2

    run(scenario())


def test_many_produces_in_flight_keep_their_order(tmp_path: Path) -> None:
    count = 500

    async def scenario() -> None:
        async with client_of_a_node(tmp_path) as client:
            await create_topic(client, "orders")
            flood = [
                part
                for number in range(count)
                for part in request(
                    produce_request("orders", b"%d" % number, acks=-1), number, version=9
                )
            ]
            sending = asyncio.create_task(client.send(*flood))
            for number in range(count):
                frame = await client.frame()
                assert frame is not None
                assert decode_correlation_id(frame) == number
                reply = decode_response(ProduceResponse, 9, frame)
                assert reply.responses[0].partition_responses[0].base_offset == number
            await sending
            fetched = await ask(client, fetch_request("orders", 0, wait_ms=0), FetchResponse, 12)
            assert values_in(fetched) == [b"%d" % number for number in range(count)]

    run(scenario())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_of_an_old_version_is_told_that_it_is_unsupported(
    tmp_path: Path, version: int
) -> None:
    async def scenario() -> None:
        async with client_of_a_node(tmp_path) as client:
            await create_topic(client, "orders")
            old = produce_request("orders", b"old", acks=1)
            reply = await ask(client, old, ProduceResponse, version)
            answer = reply.responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION

    run(scenario())


def test_produce_without_acks_is_stored_and_not_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with client_of_a_node(tmp_path) as client:
            await create_topic(client, "orders")
            await client.ask(produce_request("orders", b"quiet", acks=0), 1, version=9)
            fetched = await ask(client, fetch_request("orders", 0, wait_ms=0), FetchResponse, 12)
            assert values_in(fetched) == [b"quiet"]

    run(scenario())


def test_stop_answers_a_waiting_fetch_instead_of_waiting_with_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with client_and_node(tmp_path) as (client, node):
            await create_topic(client, "orders")
            await create_topic(client, "signals")
            await client.ask(fetch_request("orders", 0, wait_ms=20_000), 1, version=12)
            # Handled after the fetch; another client sees it, and so knows that the fetch waits.
            await client.ask(produce_request("signals", b"taken", acks=0), 2, version=9)
            other = RawClient(await real_world(inline=True).network.connect(node.addresses[0]))
            seen = await ask(other, fetch_request("signals", 0, wait_ms=20_000), FetchResponse, 12)
            assert values_in(seen) == [b"taken"]
            stopping = asyncio.create_task(node.stop())
            frame = await client.frame()
            assert frame is not None, "the node hung up on a request that it had taken"
            reply = decode_response(FetchResponse, 12, frame)
            assert reply.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            await stopping
            other.stream.close()
            assert await node.failed() is None

    run(scenario())
