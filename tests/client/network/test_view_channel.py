"""Replies that are read where they were received."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.errors import ConnectionLost, TimedOut
from penstock.client.network.view_channel import ViewChannel, open_view_channel
from penstock.records.batch import BatchHeader
from penstock.testing import Broker
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from penstock.world.tcp import TcpNetwork

TIMEOUT_MS = 30_000
BY_NAME = 12  # the last version of Fetch that names topics


def talk(broker: Broker, work: Callable[[ViewChannel], Awaitable[None]]) -> None:
    async def run() -> None:
        [address] = parse_addresses(broker.bootstrap)
        channel = await open_view_channel(
            TcpNetwork(), address, client_id="test", timeout_ms=TIMEOUT_MS
        )
        try:
            await work(channel)
        finally:
            channel.close()

    asyncio.run(run())


def fetch(topic: str, offset: int) -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=2**20)
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[asked])]
    )


async def receive(channel: ViewChannel) -> PartitionData:
    reply = await channel.receive(FetchResponse, version=BY_NAME)
    [topic] = reply.responses
    [data] = topic.partitions
    return data


def test_records_are_views_that_hold_until_the_next_reply(penstock: Broker) -> None:
    value = "a" * 200_000  # more than the buffer has room for at first
    penstock.produce("orders", [value])

    async def work(channel: ViewChannel) -> None:
        await channel.send(fetch("orders", 0), FetchResponse, version=BY_NAME)
        data = await receive(channel)
        assert isinstance(data.records, memoryview)
        assert value.encode() in bytes(data.records)
        await channel.send(fetch("orders", 1), FetchResponse, version=BY_NAME)
        empty = await receive(channel)
        assert not empty.records
        assert empty.high_watermark == 1

    talk(penstock, work)


def test_replies_to_requests_sent_together_come_one_by_one(penstock: Broker) -> None:
    for value in ("first", "second"):
        penstock.produce("orders", [value])

    async def work(channel: ViewChannel) -> None:
        for offset in (1, 0):
            await channel.send(fetch("orders", offset), FetchResponse, version=BY_NAME)
        assert channel.in_flight == 2
        for offset in (1, 0):
            data = await receive(channel)
            assert isinstance(data.records, memoryview)
            assert BatchHeader(data.records).base_offset == offset
        assert channel.in_flight == 0

    talk(penstock, work)


def test_a_broker_that_goes_is_a_lost_connection(penstock: Broker) -> None:
    penstock.produce("orders", ["first"])

    async def work(channel: ViewChannel) -> None:
        await asyncio.to_thread(penstock.kill)
        with pytest.raises(ConnectionLost):
            await channel.ask(fetch("orders", 0), FetchResponse, timeout_ms=TIMEOUT_MS)

    talk(penstock, work)


def test_who_waits_for_a_reply_is_told_why_the_connection_was_closed(penstock: Broker) -> None:
    penstock.produce("orders", ["first"])

    async def work(channel: ViewChannel) -> None:
        waits = fetch("orders", 1)
        waits.max_wait_ms, waits.min_bytes = TIMEOUT_MS, 1
        await channel.send(waits, FetchResponse, version=BY_NAME)
        asyncio.get_running_loop().call_later(0.01, channel.close, TimedOut("late"))
        with pytest.raises(TimedOut, match="late"):
            await channel.receive(FetchResponse, version=BY_NAME)

    talk(penstock, work)
