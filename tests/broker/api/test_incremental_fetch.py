"""Fetch sessions over the real handler: what is said once is not said again."""

import asyncio
from collections.abc import Awaitable
from typing import cast

import pytest

from penstock.broker.api import fetch as fetch_api
from penstock.model.error import ErrorCode
from penstock.wire.messages.fetch import FetchResponse
from rig.data_requests import at, bytes_of, fetch, fetch_request, only, produce
from rig.produced import produced
from rig.services import Broker


def open_session(broker: Broker, partitions: int = 1) -> int:
    wanted = [at(0, index=index) for index in range(partitions)]
    response = fetch(broker, fetch_request("t", *wanted, session_epoch=0))
    assert response.session_id
    return response.session_id


def again(broker: Broker, session_id: int, epoch: int, **more: int) -> FetchResponse:
    request = fetch_request("t", session_id=session_id, session_epoch=epoch, **more)
    return fetch(broker, request)


def test_unchanged_partitions_are_left_out(broker: Broker) -> None:
    broker.create_topic("t", 3)
    session_id = open_session(broker, 3)
    assert again(broker, session_id, 1).responses == []
    produce(broker, "t", produced(), index=1)
    response = again(broker, session_id, 2)
    assert only(response).partition_index == 1
    assert bytes_of(only(response))


def test_what_a_committed_reader_cannot_see_yet_moves_the_high_watermark_once(
    broker: Broker,
) -> None:
    broker.create_topic("t")
    session_id = open_session(broker)
    produce(broker, "t", produced())
    wanted = at(1)
    request = fetch_request("t", wanted, session_id=session_id, session_epoch=1)
    assert only(fetch(broker, request)).high_watermark == 1
    assert again(broker, session_id, 2).responses == []


def test_with_a_small_limit_every_partition_has_its_turn(broker: Broker) -> None:
    broker.create_topic("t", 3)
    for index in range(3):
        for _ in range(3):
            produce(broker, "t", produced(value=bytes(500)), index=index)
    session_id = fetch(
        broker,
        fetch_request("t", *[at(0, index=i) for i in range(3)], session_epoch=0, max_bytes=0),
    ).session_id
    turns = []
    for epoch in range(1, 4):
        response = again(broker, session_id, epoch, max_bytes=600)
        turns += [
            answer.partition_index
            for topic in response.responses
            for answer in topic.partitions
            if bytes_of(answer)
        ][:1]
    assert sorted(turns) == [0, 1, 2]


@pytest.mark.parametrize(
    ("session_id", "epoch", "code"),
    [
        (77, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 5, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
def test_unknown_sessions_are_refused(
    broker: Broker, session_id: int, epoch: int, code: ErrorCode
) -> None:
    response = again(broker, session_id, epoch)
    assert (response.error_code, response.session_id, response.responses) == (code, 0, [])


def test_an_epoch_out_of_turn_is_refused(broker: Broker) -> None:
    broker.create_topic("t")
    session_id = open_session(broker)
    assert again(broker, session_id, 3).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_topic_made_anew_is_not_taken_for_the_old_one(broker: Broker) -> None:
    old_id = broker.create_topic("t")
    request = fetch_request("", at(0), topic_id=old_id, session_epoch=0)
    session_id = fetch(broker, request, version=13).session_id
    broker.delete_topic("t")
    gone = fetch_request("", session_id=session_id, session_epoch=1)
    answer = only(fetch(broker, gone, version=13))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.create_topic("t")
    anew = fetch_request("", session_id=session_id, session_epoch=2)
    response = fetch(broker, anew, version=13)
    assert only(response).error_code == ErrorCode.INCONSISTENT_TOPIC_ID
    assert response.responses[0].topic_id == old_id


def test_a_long_poll_of_a_session_tells_only_what_came(broker: Broker) -> None:
    broker.create_topic("t", 3)
    session_id = open_session(broker, 3)

    async def scenario() -> FetchResponse:
        request = fetch_request("t", session_id=session_id, session_epoch=1, wait_ms=60_000)
        response = broker.send(fetch_api.API, request, version=12)
        task = asyncio.ensure_future(cast(Awaitable[FetchResponse], response))
        await asyncio.sleep(0)
        produce_now(broker)
        return await asyncio.wait_for(task, 50)

    def produce_now(broker: Broker) -> None:
        partition = broker.partition("t", 2)
        partition.append(produced(), all_acks=False, now_ms=broker.world.clock.now_ms())

    assert only(asyncio.run(scenario())).partition_index == 2
