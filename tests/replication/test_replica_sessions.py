"""A follower's fetches name what has changed, and the leader knows every position."""

import random

import pytest

from penstock.model.error import ErrorCode
from penstock.model.identity import TopicId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.replication.fetch_session import FetchSessions
from penstock.replication.follower import Position
from penstock.replication.replica_session import PartitionId, ReplicaSession
from penstock.wire.header import encode_request
from penstock.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from penstock.wire.replica_fetch import encode_replica_fetch

TOPICS = tuple(TopicId(bytes((number,)) * 16) for number in (1, 2))
ORDERS = (TOPICS[0], 0)
PAYMENTS = (TOPICS[1], 0)


def position(offset: int, epoch: int = 0) -> Position:
    return Position(
        fetch_offset=Offset(offset),
        last_fetched_epoch=LeaderEpoch(epoch),
        leader_epoch=LeaderEpoch(epoch),
        log_start_offset=Offset(0),
    )


def named(request: FetchRequest) -> dict[PartitionId, int]:
    return {
        (TopicId(topic.topic_id), one.partition): one.fetch_offset
        for topic in request.topics
        for one in topic.partitions
    }


def forgotten(request: FetchRequest) -> list[PartitionId]:
    return [
        (TopicId(topic.topic_id), index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def next_request(session: ReplicaSession) -> FetchRequest:
    request = session.next_request(partition_bytes_max=1000)
    session.check()
    return request


def opened(*partitions: PartitionId) -> ReplicaSession:
    """A session 7 in which the leader knows these partitions at offset 5."""
    session = ReplicaSession()
    for partition in partitions:
        session.want(partition, position(5))
    next_request(session)
    assert session.replied(FetchResponse(session_id=7))
    session.taken()
    return session


def test_the_first_request_names_everything_and_is_answered_at_once() -> None:
    session = ReplicaSession()
    session.want(ORDERS, position(5))
    session.want(PAYMENTS, position(9))
    assert not session.may_wait
    request = next_request(session)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert named(request) == {ORDERS: 5, PAYMENTS: 9}
    assert session.replied(FetchResponse(session_id=7))
    session.taken()
    assert session.may_wait
    request = next_request(session)
    assert (request.session_id, request.session_epoch) == (7, 1)
    assert (named(request), forgotten(request)) == ({}, [])


def test_only_what_has_moved_is_named_again() -> None:
    session = opened(ORDERS, PAYMENTS)
    session.want(ORDERS, position(6))
    session.want(PAYMENTS, position(5))
    assert named(next_request(session)) == {ORDERS: 6}
    assert session.asked(ORDERS) == position(6)


def test_what_is_left_out_is_forgotten_by_the_leader_and_named_when_it_comes_back() -> None:
    session = opened(ORDERS, PAYMENTS)
    session.leave_out(ORDERS)
    request = next_request(session)
    assert (named(request), forgotten(request)) == ({}, [ORDERS])
    session.replied(FetchResponse(session_id=7))
    session.taken()
    assert session.asked(ORDERS) is None
    session.want(ORDERS, position(5))
    request = next_request(session)
    assert (named(request), forgotten(request)) == ({ORDERS: 5}, [])


def test_what_comes_back_before_the_next_request_was_never_forgotten() -> None:
    session = opened(ORDERS)
    session.leave_out(ORDERS)
    assert session.is_empty
    session.want(ORDERS, position(8))
    request = next_request(session)
    assert (named(request), forgotten(request)) == ({ORDERS: 8}, [])


def test_answers_to_a_request_that_was_interrupted_are_about_its_positions() -> None:
    session = opened(ORDERS, PAYMENTS)
    next_request(session)
    session.want(ORDERS, position(5, epoch=1))
    assert session.has_news
    assert session.may_interrupt
    assert named(next_request(session)) == {ORDERS: 5}
    assert not session.may_interrupt
    assert session.replied(FetchResponse(session_id=7))
    assert session.asked(ORDERS) == position(5)  # the answer is for the position of before
    assert session.asked(PAYMENTS) == position(5)
    session.taken()
    assert session.replied(FetchResponse(session_id=7))
    assert session.asked(ORDERS) == position(5, epoch=1)


def test_a_leader_that_refuses_an_interrupted_request_has_not_lost_the_session() -> None:
    session = opened(ORDERS)
    next_request(session)
    session.want(PAYMENTS, position(0))
    next_request(session)
    refused = FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert not session.replied(refused)
    assert session.replied(FetchResponse(session_id=7))
    session.taken()
    assert next_request(session).session_id == 7


def test_answers_to_the_request_that_interrupts_are_taken() -> None:
    session = opened(ORDERS)
    next_request(session)
    session.want(PAYMENTS, position(0))
    next_request(session)
    assert not session.replied(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
    assert session.replied(FetchResponse(session_id=7))
    assert session.asked(PAYMENTS) == position(0)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_after_a_lost_session_everything_is_named_again(code: ErrorCode) -> None:
    session = opened(ORDERS, PAYMENTS)
    session.leave_out(PAYMENTS)
    next_request(session)
    assert not session.replied(FetchResponse(error_code=code))
    session.check()
    request = next_request(session)
    assert (request.session_id, request.session_epoch) == (7, 0)  # which closes the old one
    assert (named(request), forgotten(request)) == ({ORDERS: 5}, [])


def test_on_a_new_connection_nothing_is_outstanding() -> None:
    session = opened(ORDERS)
    next_request(session)
    session.reconnected()
    assert session.outstanding == 0
    assert named(next_request(session)) == {ORDERS: 5}


def test_without_room_for_a_session_all_are_named_each_time_and_in_turn() -> None:
    session = ReplicaSession()
    session.want(ORDERS, position(5))
    session.want(PAYMENTS, position(5))
    next_request(session)
    assert session.replied(FetchResponse(session_id=0))
    session.want(ORDERS, position(6))
    session.taken([ORDERS])
    assert session.may_wait
    assert not session.may_interrupt
    assert list(named(next_request(session)).items()) == [(PAYMENTS, 5), (ORDERS, 6)]


@pytest.mark.parametrize("seed", range(50))
def test_the_leader_knows_all_positions_after_any_changes(seed: int) -> None:
    chance = random.Random(seed)
    session = ReplicaSession()
    leader = FetchSessions(random_below=chance.randrange)
    places = [(topic, index) for topic in TOPICS for index in range(4)]
    wanted: dict[PartitionId, Position] = {}
    for _ in range(100):
        for place in chance.sample(places, chance.randrange(4)):
            if chance.random() < 0.3:
                session.leave_out(place)
                wanted.pop(place, None)
            else:
                wanted[place] = position(chance.randrange(5))
                session.want(place, wanted[place])
        session.check()
        if chance.random() < 0.05:
            session.reconnected()
        if chance.random() < 0.05:
            leader = FetchSessions(random_below=chance.randrange)
        if session.is_empty:
            continue
        request = next_request(session)
        fetch = leader.begin(request, by_topic_id=True, now_ms=0)
        if isinstance(fetch, ErrorCode):
            assert not session.replied(FetchResponse(error_code=fetch))
            continue
        known = {(TopicId(one.topic_id), one.asked.partition): one.asked for one in fetch.wanted}
        assert {key: asked.fetch_offset for key, asked in known.items()} == {
            key: one.fetch_offset for key, one in wanted.items()
        }
        session_id = 0 if fetch.session is None else fetch.session.session_id
        if fetch.opens_session:
            session_id = open_session(leader, request)
        assert session.replied(FetchResponse(session_id=session_id))
        assert all(session.asked(key) == one for key, one in wanted.items())
        session.taken()


def open_session(leader: FetchSessions, request: FetchRequest) -> int:
    """As the handler of the leader would, which has an answer for each partition."""
    fetch = leader.begin(request, by_topic_id=True, now_ms=0)
    assert not isinstance(fetch, ErrorCode)
    finished = leader.finish(fetch, [PartitionData() for _ in fetch.wanted], now_ms=0)
    assert not isinstance(finished, ErrorCode)
    return finished.session_id


@pytest.mark.parametrize("seed", range(20))
def test_positions_are_what_a_request_would_say(seed: int) -> None:
    """Two sessions with the same history: one builds its requests, the other encodes them."""
    chance = random.Random(seed)
    partitions = [(topic, index) for topic in TOPICS for index in range(3)]
    built, encoded = opened(*partitions), opened(*partitions)
    for _ in range(30):
        for partition in chance.sample(partitions, chance.randint(0, 4)):
            if chance.random() < 0.1:
                built.leave_out(partition)
                encoded.leave_out(partition)
            else:
                where = position(chance.randint(0, 9), chance.randint(0, 2))
                built.want(partition, where)
                encoded.want(partition, where)
        found = encoded.next_positions(partition_bytes_max=1000)
        request = next_request(built)
        encoded.check()
        if request.forgotten_topics_data:
            assert found is None
            request = next_request(encoded)
        else:
            assert found is not None
            request.replica_state = ReplicaState(replica_id=2, replica_epoch=3)
            frame = encode_replica_fetch(
                version=18,
                correlation_id=7,
                client_id=b"c",
                wait_ms_max=request.max_wait_ms,
                bytes_min=request.min_bytes,
                bytes_max=request.max_bytes,
                session_id=found.session_id,
                session_epoch=found.session_epoch,
                node=2,
                broker_epoch=3,
                topics=found.topics,
            )
            [expected] = encode_request(request, version=18, correlation_id=7, client_id="c")
            assert frame == expected
        assert encoded.known == built.known
        for session in (built, encoded):
            assert session.replied(FetchResponse(session_id=7))
            session.taken()


def test_a_session_that_is_not_open_has_no_positions() -> None:
    session = ReplicaSession()
    session.want(ORDERS, position(5))
    assert session.next_positions(partition_bytes_max=1000) is None
    assert named(next_request(session)) == {ORDERS: 5}
