"""A fetch that finds too little waits, and is answered as soon as there is reason to."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from penstock.broker.api import fetch as fetch_api
from penstock.model.error import ErrorCode
from penstock.model.limit import ENTRIES_PER_TURN
from penstock.wire.messages.fetch import FetchRequest, FetchResponse, FetchTopic
from rig.data_requests import at, bytes_of, fetch_request, only, produce
from rig.produced import NOW_MS, produced
from rig.services import Broker

LONG_MS = 60_000


def waiting(broker: Broker, request: FetchRequest) -> "asyncio.Task[FetchResponse]":
    response = broker.send(fetch_api.API, request, version=12)
    assert hasattr(response, "__await__"), response
    return asyncio.ensure_future(cast(Awaitable[FetchResponse], response))


def while_waiting(
    broker: Broker, request: FetchRequest, *steps: Callable[[], object]
) -> FetchResponse:
    """Takes the steps one after the other while the fetch waits; the last one must end it."""

    async def scenario() -> FetchResponse:
        task = waiting(broker, request)
        for step in steps:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not task.done()
            step()
        return await asyncio.wait_for(task, 50)

    return asyncio.run(scenario())


def append(broker: Broker, *, index: int = 0, size: int = 10) -> None:
    broker.partition("t", index).append(produced(value=bytes(size)), all_acks=False, now_ms=NOW_MS)


def test_new_data_ends_the_wait(broker: Broker) -> None:
    broker.create_topic("t", 2)
    request = fetch_request("t", at(0), at(0, index=1), wait_ms=LONG_MS)
    response = while_waiting(broker, request, lambda: append(broker, index=1))
    sizes = [len(bytes_of(answer)) for answer in response.responses[0].partitions]
    assert sizes[0] == 0
    assert sizes[1] > 0
    assert not broker.partition("t", 0).observers
    assert not broker.partition("t", 1).observers


def test_the_wait_goes_on_until_enough_bytes_have_come_from_all_partitions(broker: Broker) -> None:
    broker.create_topic("t", 2)
    request = fetch_request("t", at(0), at(0, index=1), wait_ms=LONG_MS, min_bytes=1000)
    response = while_waiting(
        broker,
        request,
        lambda: append(broker, size=400),
        lambda: append(broker, index=1, size=100),
        lambda: append(broker, index=1, size=600),
    )
    total = sum(len(bytes_of(answer)) for answer in response.responses[0].partitions)
    assert total >= 1000


def test_data_that_comes_before_the_wait_begins_is_not_missed(broker: Broker) -> None:
    broker.create_topic("t")

    async def scenario() -> FetchResponse:
        task = waiting(broker, fetch_request("t", at(0), wait_ms=LONG_MS))
        append(broker)  # the task has not run yet
        return await asyncio.wait_for(task, 50)

    assert bytes_of(only(asyncio.run(scenario())))


def test_when_the_time_is_up_what_there_is_is_told(broker: Broker) -> None:
    broker.create_topic("t")
    produce(broker, "t", produced())
    request = fetch_request("t", at(0), wait_ms=5, min_bytes=100_000)
    response = while_waiting(broker, request)
    assert bytes_of(only(response))
    assert not broker.partition("t").observers


def test_a_topic_deleted_meanwhile_is_told_at_once(broker: Broker) -> None:
    broker.create_topic("t")
    request = fetch_request("t", at(0), wait_ms=LONG_MS)
    response = while_waiting(broker, request, lambda: broker.delete_topic("t"))
    assert only(response).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_stopping_the_broker_ends_every_wait(broker: Broker) -> None:
    broker.create_topic("t")
    request = fetch_request("t", at(0), wait_ms=LONG_MS)
    response = while_waiting(broker, request, broker.partitions.close)
    assert only(response).error_code != ErrorCode.NONE


def test_a_cancelled_wait_leaves_no_trace(broker: Broker) -> None:
    broker.create_topic("t")

    async def scenario() -> None:
        task = waiting(broker, fetch_request("t", at(0), wait_ms=LONG_MS))
        await asyncio.sleep(0)
        assert broker.partition("t").observers
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(scenario())
    assert not broker.partition("t").observers


def test_a_reader_at_an_open_transaction_is_not_answered_for_what_it_may_not_see(
    broker: Broker,
) -> None:
    broker.create_topic("t")
    partition = broker.partition("t")
    produce(broker, "t", produced())
    partition._first_unstable_offset = partition.log.end_offset
    request = fetch_request("t", at(1), wait_ms=20, isolation=1)
    response = while_waiting(broker, request, lambda: append(broker))
    answer = only(response)
    assert (bytes_of(answer), answer.high_watermark, answer.last_stable_offset) == (b"", 2, 1)


def test_data_in_an_older_segment_is_not_waited_with(broker: Broker) -> None:
    broker.create_topic("t")
    produce(broker, "t", produced())
    broker.partition("t").log.roll()
    produce(broker, "t", produced())
    request = fetch_request("t", at(0), wait_ms=LONG_MS, min_bytes=100_000)
    assert isinstance(broker.send(fetch_api.API, request, version=12), FetchResponse)


def long_fetch_request(broker: Broker, *, wait_ms: int, min_bytes: int) -> FetchRequest:
    """Of so many partitions that the loop gets its turn twice while they are read."""
    count = 2 * ENTRIES_PER_TURN + 1
    broker.create_topic("t", count)
    wanted = [at(0, index=index) for index in range(count)]
    return fetch_request("t", *wanted, wait_ms=wait_ms, min_bytes=min_bytes)


def test_a_long_fetch_reads_again_only_when_enough_has_come(broker: Broker) -> None:
    """Every append while it reads is counted; it does not make it read all partitions again."""
    request = long_fetch_request(broker, wait_ms=LONG_MS, min_bytes=100_000)
    last = broker.partition("t", 2 * ENTRIES_PER_TURN)

    async def scenario() -> FetchResponse:
        task = waiting(broker, request)
        for _ in range(10):
            append(broker)
            await asyncio.sleep(0)
        for _ in range(100):
            assert last.observers, "the fetch does not wait"
            append(broker)
            await asyncio.sleep(0)
        append(broker, size=100_000)
        return await asyncio.wait_for(task, 50)

    response = asyncio.run(scenario())
    assert sum(len(bytes_of(answer)) for answer in response.responses[0].partitions) >= 100_000
    assert not last.observers
    assert not broker.partition("t", 0).observers


def test_data_that_comes_to_a_partition_already_read_is_not_missed(broker: Broker) -> None:
    request = long_fetch_request(broker, wait_ms=LONG_MS, min_bytes=1000)

    async def scenario() -> FetchResponse:
        task = waiting(broker, request)
        await asyncio.sleep(0)  # the first partitions have been read
        append(broker, size=1000)
        return await asyncio.wait_for(task, 50)

    response = asyncio.run(scenario())
    assert sum(len(bytes_of(answer)) for answer in response.responses[0].partitions) >= 1000


def test_a_topic_deleted_while_a_long_fetch_reads_is_told_at_once(broker: Broker) -> None:
    request = long_fetch_request(broker, wait_ms=LONG_MS, min_bytes=1000)
    broker.create_topic("u")
    request.topics.insert(0, FetchTopic(topic="u", partitions=[at(0)]))

    async def scenario() -> FetchResponse:
        task = waiting(broker, request)
        await asyncio.sleep(0)
        assert broker.partition("u").observers
        broker.delete_topic("u")
        return await asyncio.wait_for(task, 50)

    deleted = asyncio.run(scenario()).responses[0]
    assert deleted.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_long_fetch_cancelled_while_it_reads_leaves_no_trace(broker: Broker) -> None:
    request = long_fetch_request(broker, wait_ms=LONG_MS, min_bytes=1000)

    async def scenario() -> None:
        task = waiting(broker, request)
        await asyncio.sleep(0)
        assert broker.partition("t", 0).observers
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(scenario())
    assert not broker.partition("t", 0).observers
