"""DeleteRecords: a partition begins later than it did."""

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from penstock.broker.api import delete_records
from penstock.model.error import ErrorCode
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.batch import batches
from penstock.wire.definition import Message
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from rig.data_requests import at, bytes_of, fetch, fetch_request, only
from rig.fetching_follower import FetchingFollower, position, settle
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker


def delete(
    broker: Broker, offset: int, *, topic: str = "t", version: int = 2
) -> DeleteRecordsPartitionResult:
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])])
    response = broker.ask(delete_records.API, request, DeleteRecordsResponse, version=version)
    return response.topics[0].partitions[0]


def fill(broker: Broker, topic: str = "t", **config: str) -> None:
    named = {name.replace("_", "."): value for name, value in config.items()}
    broker.create_topic(topic, config=named)
    for _ in range(2):
        broker.partition(topic).append(produced(3), all_acks=False, now_ms=NOW_MS)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_below_the_offset_are_gone(broker: Broker, version: int) -> None:
    fill(broker)
    answer = delete(broker, 4, version=version)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 4)
    gone = only(fetch(broker, fetch_request("t", at(3))))
    assert gone.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    left = bytes_of(only(fetch(broker, fetch_request("t", at(4)))))
    assert [batch.base_offset for batch in batches(memoryview(left))] == [3]


def test_minus_one_deletes_up_to_the_high_watermark(broker: Broker) -> None:
    fill(broker)
    assert delete(broker, -1).low_watermark == 6
    assert broker.partition("t").log.start_offset == 6


def test_a_lower_offset_than_the_start_changes_nothing(broker: Broker) -> None:
    fill(broker)
    delete(broker, 4)
    assert delete(broker, 2).low_watermark == 4


@pytest.mark.parametrize("offset", [7, -2])
def test_offsets_that_are_not_there_are_out_of_range(broker: Broker, offset: int) -> None:
    fill(broker)
    answer = delete(broker, offset)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_compacted_topics_refuse(broker: Broker) -> None:
    fill(broker, cleanup_policy="compact")
    assert delete(broker, 1).error_code == ErrorCode.POLICY_VIOLATION
    broker.configure("t", {"cleanup.policy": "compact,delete"})
    assert delete(broker, 1).error_code == ErrorCode.NONE


def test_internal_and_unknown_topics_refuse(broker: Broker) -> None:
    fill(broker, "__consumer_offsets")
    internal = delete(broker, 1, topic="__consumer_offsets")
    assert internal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    unknown = delete(broker, 1, topic="nowhere")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Deleting:
    """A partition of which one follower fetches, and a request to delete what it has."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        topic_id = broker.create_topic("t", replicas=(NODE, OTHER))
        for _ in range(2):
            broker.partition("t").append(produced(3), all_acks=False, now_ms=NOW_MS)
        self.follower = FetchingFollower(broker, topic_id)
        self.follower.fetch(position(6))

    def send(self, offset: int, *, timeout_ms: int = 600_000) -> "asyncio.Future[Message]":
        asked = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name="t", partitions=[asked])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
        sent = self.broker.send(delete_records.API, request, version=2)
        assert isinstance(sent, Awaitable)
        return asyncio.ensure_future(sent)


def outcome(response: Message) -> tuple[ErrorCode, int]:
    assert isinstance(response, DeleteRecordsResponse)
    [answer] = response.topics[0].partitions
    return ErrorCode(answer.error_code), answer.low_watermark


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 120))


def test_the_reply_waits_until_all_replicas_have_followed(broker: Broker) -> None:
    async def scenario() -> None:
        deleting = Deleting(broker)
        poll = deleting.follower.poll()
        await settle()
        reply = deleting.send(4)
        # The follower is told at once.
        answers = deleting.follower.taken(await poll)
        assert answers[0].log_start_offset == 4
        deleting.follower.fetch(position(6, start=3))
        await settle()
        assert not reply.done()
        deleting.follower.fetch(position(6, start=4))
        assert outcome(await reply) == (ErrorCode.NONE, 4)

    run(scenario())


def test_the_low_watermark_is_the_least_start(broker: Broker) -> None:
    deleting = Deleting(broker)
    broker.partition("t").advance_start(Offset(5))
    deleting.follower.fetch(position(6, start=3))
    assert delete(broker, 2).low_watermark == 3


def test_a_replica_that_does_not_follow_in_time_is_told(broker: Broker) -> None:
    async def scenario() -> None:
        deleting = Deleting(broker)
        assert outcome(await deleting.send(4, timeout_ms=20)) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert broker.partition("t").log.start_offset == 4
        assert len(broker.partition("t").observers) == 1  # that of the session

    run(scenario())


def test_replicas_on_dead_brokers_are_not_waited_for(broker: Broker) -> None:
    Deleting(broker)
    brokers = broker.services.image.brokers
    fenced = {**brokers, OTHER: replace(brokers[OTHER], fenced=True)}
    broker.services.image = replace(broker.services.image, brokers=fenced)
    answer = delete(broker, 4)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 4)


def test_a_replica_whose_broker_is_fenced_is_waited_for_no_more(broker: Broker) -> None:
    async def scenario() -> None:
        deleting = Deleting(broker)
        reply = deleting.send(4)
        await settle()
        assert not reply.done()
        broker.fence(OTHER)
        assert outcome(await reply) == (ErrorCode.NONE, 4)

    run(scenario())


def test_a_change_of_leader_ends_the_wait(broker: Broker) -> None:
    async def scenario() -> None:
        deleting = Deleting(broker)
        reply = deleting.send(4)
        await settle()
        topic = broker.services.image.topics_by_name["t"]
        [partition] = topic.partitions
        moved = replace(partition, leader=OTHER, leader_epoch=LeaderEpoch(1), partition_epoch=1)
        broker.change_topic(replace(topic, partitions=(moved,)))
        assert outcome(await reply) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    run(scenario())
