"""What a leader tells a follower that fetches, and what it learns from the fetch."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, cast

import pytest

from penstock.broker.api import fetch as fetch_api
from penstock.broker.api import produce as produce_api
from penstock.broker.network.dispatch import Dispatch, api_key_of
from penstock.broker.request.pending_reply import PendingReply
from penstock.broker.request.request_stats import RequestStats
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.model.limit import ENTRIES_PER_TURN
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.batch import BatchHeader
from penstock.replication.partition import Partition
from penstock.wire.api import ApiKey
from penstock.wire.header import encode_request
from penstock.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from penstock.world.ports import Address, Clock
from rig.data_requests import bytes_of, produce_request
from rig.fetching_follower import VERSION, FetchingFollower, position, settle
from rig.produced import NOW_MS, produced
from rig.services import LISTENER, NODE, OTHER, Broker

THIRD = NodeId(3)
LAG_MS = 10_000
SINCE_LONG_AGO_MS = 3_600_000


class Following:
    """A broker that leads topic `t`, and a follower of it."""

    def __init__(self, broker: Broker, *, partitions: int = 1, **options: Any) -> None:
        self.broker = broker
        topic_id = broker.create_topic("t", partitions, replicas=(NODE, OTHER), **options)
        self.follower = FetchingFollower(broker, topic_id)

    def append(self, count: int = 1, *, index: int = 0, size: int = 10) -> None:
        partition = self.broker.partition("t", index)
        for _ in range(count):
            partition.append(produced(value=b"x" * size), all_acks=False, now_ms=NOW_MS)

    def opened(self, *at: int) -> dict[int, PartitionData]:
        """The session is open, with the follower at these offsets of the first partitions."""
        return self.follower.fetch(*(position(offset, index=i) for i, offset in enumerate(at)))

    def change(self, *, leader: NodeId = NODE, epoch: int = 0) -> None:
        topic = self.broker.services.image.topics_by_name["t"]
        changed = tuple(
            replace(
                one,
                leader=leader,
                leader_epoch=LeaderEpoch(epoch),
                partition_epoch=one.partition_epoch + 1,
            )
            for one in topic.partitions
        )
        self.broker.change_topic(replace(topic, partitions=changed))


@pytest.fixture(params=["bytes", "messages"], autouse=True)
def way(request: pytest.FixtureRequest, broker: Broker) -> str:
    """Fetches that fit are answered from bytes to bytes, or none is: with the same outcome."""
    if request.param == "bytes":
        broker.takes_shortcut = (fetch_api.API.shortcut, FetchResponse)
    return str(request.param)


@pytest.fixture
def following(broker: Broker) -> Following:
    return Following(broker)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 120))


def base_offsets(answer: PartitionData) -> list[int]:
    """Of the batches in an answer, which end where it ends."""
    data = memoryview(bytearray(bytes_of(answer)))
    offsets = []
    while data:
        batch = BatchHeader(data)
        offsets.append(int(batch.base_offset))
        assert batch.size_bytes <= len(data)
        data = data[batch.size_bytes :]
    return offsets


def code(answers: dict[int, PartitionData], index: int = 0) -> ErrorCode:
    return ErrorCode(answers[index].error_code)


def test_a_follower_reads_beyond_the_high_watermark(following: Following) -> None:
    following.append(3)
    answers = following.opened(0)
    assert base_offsets(answers[0]) == [0, 1, 2]
    assert (answers[0].high_watermark, answers[0].log_start_offset) == (0, 0)


def test_fetches_of_a_session_go_from_bytes_to_bytes(following: Following, way: str) -> None:
    taken: list[int] = []

    async def scenario() -> None:
        following.append(2)
        following.opened(0)
        for fetch in (
            lambda: following.follower.fetch(position(2)),  # named
            lambda: following.follower.fetch(),  # nothing to tell
            lambda: following.follower.fetch(position(9)),  # fails
        ):
            fetch()
            taken.append(following.broker.shortcuts_taken)
        waiting = following.follower.poll(position(2))
        await settle()
        following.append()
        assert base_offsets(following.follower.taken(await waiting)[0]) == [2]
        taken.append(following.broker.shortcuts_taken)

    run(scenario())
    assert taken == ([1, 2, 3, 4] if way == "bytes" else [0, 0, 0, 0])


def test_its_next_fetch_moves_the_high_watermark_and_releases_acks(following: Following) -> None:
    broker = following.broker

    async def scenario() -> None:
        following.opened(0)
        sent = broker.send(produce_api.API, produce_request("t", produced(2)), version=9)
        acked = asyncio.ensure_future(sent)  # type: ignore[arg-type]
        await settle()
        following.follower.fetch()
        assert not acked.done()
        assert broker.partition("t").high_watermark == 0
        answers = following.follower.fetch(position(2))
        response: Any = await acked
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert answers[0].high_watermark == 2
        assert not answers[0].records

    run(scenario())


def test_only_partitions_with_something_new_are_answered(broker: Broker) -> None:
    following = Following(broker, partitions=3)
    assert set(following.opened(0, 0, 0)) == {0, 1, 2}
    assert following.follower.fetch() == {}
    following.append(index=1)
    assert set(following.follower.fetch()) == {1}
    # Not named, so it is where it was: the records are sent again.
    assert base_offsets(following.follower.fetch()[1]) == [0]
    assert set(following.follower.fetch(position(1, index=1))) == {1}
    assert following.follower.fetch() == {}


def test_a_fetch_looks_at_no_partition_that_has_nothing_to_tell(broker: Broker) -> None:
    following = Following(broker, partitions=50)
    following.opened(*[0] * 50)
    session = broker.services.follower_sessions.by_node[OTHER]
    assert not session.news
    following.append(index=7)
    assert [followed.key[1] for followed in session.news] == [7]
    following.follower.fetch(position(1, index=7))
    assert not session.news
    session.check()


def test_a_waiting_fetch_is_answered_when_the_log_grows(following: Following) -> None:
    async def scenario() -> None:
        following.opened(0)
        poll = following.follower.poll()
        await settle()
        assert not poll.done()
        following.append(2)
        answers = following.follower.taken(await poll)
        assert base_offsets(answers[0]) == [0, 1]

    run(scenario())


@pytest.mark.parametrize(("first_ms", "second_ms"), [(600_000, 30), (30, 60)])
def test_a_wait_ends_in_time_whatever_an_earlier_fetch_was_ready_to_wait(
    following: Following, first_ms: int, second_ms: int
) -> None:
    """The fetches of a session share a timer."""

    async def scenario() -> None:
        following.opened(0)
        first = following.follower.poll(wait_ms=first_ms)
        await settle()
        following.append()
        assert base_offsets(following.follower.taken(await first)[0]) == [0]
        # Named at its end, it has nothing but a new high watermark to tell, which waits.
        assert following.follower.fetch(position(1))[0].high_watermark == 1
        assert following.follower.taken(await following.follower.poll(wait_ms=second_ms)) == {}

    run(scenario())


def test_a_new_watermark_alone_waits_for_the_end_of_the_poll(broker: Broker) -> None:
    following = Following(broker, partitions=2)

    async def scenario() -> None:
        following.append()
        following.opened(0, 0)
        poll = following.follower.poll(position(1), wait_ms=30)
        await settle()
        assert broker.partition("t").high_watermark == 1
        assert not poll.done()
        assert following.follower.taken(await poll)[0].high_watermark == 1
        # With records of another partition it goes at once.
        following.append()
        poll = following.follower.poll()
        await settle()
        following.follower.taken(await poll)
        poll = following.follower.poll(position(2))
        await settle()
        assert not poll.done()
        following.append(index=1)
        answers = following.follower.taken(await poll)
        assert set(answers) == {0, 1}
        assert answers[0].high_watermark == 2

    run(scenario())


def test_a_waiting_fetch_is_answered_when_the_log_begins_elsewhere(following: Following) -> None:
    async def scenario() -> None:
        following.append(3)
        following.opened(0)
        following.follower.fetch(position(3))
        poll = following.follower.poll()
        await settle()
        partition = following.broker.partition("t")
        partition.advance_start(Offset(2))
        partition.start_moved()
        answers = following.follower.taken(await poll)
        assert answers[0].log_start_offset == 2

    run(scenario())


def test_too_few_bytes_are_waited_for(following: Following) -> None:
    async def scenario() -> None:
        following.opened(0)
        poll = following.follower.poll(min_bytes=300)
        await settle()
        following.append()
        await settle()
        assert not poll.done()
        following.append(5)
        assert base_offsets(following.follower.taken(await poll)[0]) == list(range(6))

    run(scenario())


def test_a_second_fetch_ends_the_wait_of_the_first(broker: Broker) -> None:
    following = Following(broker, partitions=2)

    async def scenario() -> None:
        following.opened(0)
        first = following.follower.poll()
        await settle()
        second = following.follower.poll(position(0, index=1))
        assert (await first).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        await settle()
        assert not second.done()
        following.append(index=1)
        assert set(following.follower.taken(await second)) == {1}

    run(scenario())


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (position(0, epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (position(0, epoch=4), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (position(9, epoch=3), ErrorCode.OFFSET_OUT_OF_RANGE),
        (position(0, epoch=3, index=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (position(0, epoch=3), ErrorCode.NONE),
        (position(0, epoch=-1), ErrorCode.NONE),
    ],
)
def test_a_fetch_of_another_epoch_or_place_is_refused(
    broker: Broker, asked: Any, expected: ErrorCode
) -> None:
    following = Following(broker, leader_epoch=3)
    answers = following.follower.fetch(asked)
    assert code(answers, asked.partition) == expected


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(0, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)],
)
def test_a_node_that_is_no_replica_learns_nothing(
    following: Following, epoch: int, expected: ErrorCode
) -> None:
    following.append()
    following.follower.node = THIRD
    answers = following.follower.fetch(position(1, epoch=epoch))
    assert code(answers) == expected
    assert following.broker.partition("t").high_watermark == 0


def test_an_earlier_incarnation_of_a_broker_moves_nothing(following: Following) -> None:
    following.append()
    following.opened(0)
    brokers = following.broker.services.image.brokers
    restarted = {**brokers, OTHER: replace(brokers[OTHER], epoch=5)}
    following.broker.services.image = replace(following.broker.services.image, brokers=restarted)
    stale = following.follower.request(position(1))
    response = following.broker.ask(fetch_api.API, stale, FetchResponse, version=VERSION)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    again = FetchingFollower(following.broker, following.follower.topic_id)
    assert code(again.fetch(position(1))) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert following.broker.partition("t").high_watermark == 0
    new = FetchingFollower(following.broker, following.follower.topic_id, broker_epoch=5)
    assert code(new.fetch(position(1))) == ErrorCode.NONE
    assert following.broker.partition("t").high_watermark == 1


@pytest.mark.parametrize("broker_epoch", [-1, 0, 2, 2**62])
def test_who_claims_another_broker_epoch_does_not_disturb_the_follower(
    following: Following, broker_epoch: int
) -> None:
    following.opened(0)
    following.append()
    claimed = FetchingFollower(
        following.broker, following.follower.topic_id, broker_epoch=broker_epoch
    )
    assert code(claimed.fetch(position(1))) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert claimed.session_id == 0
    assert following.broker.partition("t").high_watermark == 0
    session_id = following.follower.session_id
    continued = claimed.request(position(1))
    continued.session_id, continued.session_epoch = session_id, following.follower.epoch
    response = following.broker.ask(fetch_api.API, continued, FetchResponse, version=VERSION)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert code(following.follower.fetch(position(1))) == ErrorCode.NONE
    assert following.follower.session_id == session_id
    assert following.broker.partition("t").high_watermark == 1


@pytest.mark.parametrize("broker_epoch", [-2, -1, 0, 1, 2**62])
def test_who_claims_to_be_a_replica_that_is_not_registered_does_not_keep_it_out(
    following: Following, broker_epoch: int
) -> None:
    """It was unregistered, and registers again later."""
    following.append()
    services = following.broker.services
    known = services.image
    others = {node: one for node, one in known.brokers.items() if node != OTHER}
    services.image = replace(known, brokers=others)
    claimed = FetchingFollower(
        following.broker, following.follower.topic_id, broker_epoch=broker_epoch
    )
    claimed.fetch(position(1))
    assert claimed.session_id == 0
    assert following.broker.partition("t").high_watermark == 0
    services.image = known
    assert code(following.follower.fetch(position(1))) == ErrorCode.NONE
    assert following.broker.partition("t").high_watermark == 1


def test_a_log_that_diverges_is_told_where_to_and_moves_nothing(broker: Broker) -> None:
    following = Following(broker)
    following.append(2)
    following.change(epoch=4)
    following.append()
    answers = following.follower.fetch(position(3, epoch=4, last_epoch=2))
    where = answers[0].diverging_epoch
    assert where is not None
    assert (where.epoch, where.end_offset) == (0, 2)
    assert not answers[0].records
    assert broker.partition("t").high_watermark == 0
    answers = following.follower.fetch(position(2, epoch=4, last_epoch=0))
    assert base_offsets(answers[0]) == [2]


def test_what_a_follower_had_reached_under_another_epoch_counts_no_more(
    following: Following,
) -> None:
    following.append()
    following.opened(0)
    following.change(epoch=1)
    answers = following.follower.fetch(position(1, epoch=0))
    assert code(answers) == ErrorCode.FENCED_LEADER_EPOCH
    assert following.broker.partition("t").high_watermark == 0
    following.follower.fetch(position(1, epoch=1))
    assert following.broker.partition("t").high_watermark == 1


def test_what_was_told_under_another_epoch_is_told_again(following: Following) -> None:
    """The reply that told it may have come after the follower had changed the epoch: it is dropped
    there.
    """
    following.append()
    following.opened(0)
    told = following.follower.fetch(position(1))
    assert told[0].high_watermark == 1
    following.change(epoch=1)
    told = following.follower.fetch(position(1, epoch=1))
    assert told[0].high_watermark == 1
    assert following.follower.fetch() == {}


@pytest.mark.parametrize("leader", [NODE, OTHER])
def test_a_waiting_fetch_is_told_at_once_that_the_leader_has_changed(
    following: Following, leader: NodeId
) -> None:
    async def scenario() -> None:
        following.opened(0)
        poll = following.follower.poll()
        await settle()
        following.change(leader=leader, epoch=1)
        answers = following.follower.taken(await poll)
        if leader == NODE:
            assert code(answers) == ErrorCode.FENCED_LEADER_EPOCH
        else:
            assert code(answers) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        hint = answers[0].current_leader
        assert hint is not None
        assert (hint.leader_id, hint.leader_epoch) == (leader, 1)

    run(scenario())


def test_a_partition_that_could_not_be_read_is_looked_at_again(broker: Broker) -> None:
    """The follower knew of the topic before this broker did."""

    async def scenario() -> None:
        other_id = broker.create_topic("other", replicas=(NODE, OTHER))
        follower = FetchingFollower(broker, TopicId((2).to_bytes(16, "big")))
        assert other_id != follower.topic_id
        answers = follower.fetch(position(0))
        assert code(answers) == ErrorCode.UNKNOWN_TOPIC_ID
        # Told again with each reply, and no reply is sent for it alone before its time.
        poll = follower.poll(wait_ms=30)
        await settle()
        assert not poll.done()
        assert code(follower.taken(await poll)) == ErrorCode.UNKNOWN_TOPIC_ID
        assert broker.create_topic("t", replicas=(NODE, OTHER)) == follower.topic_id
        assert code(follower.fetch()) == ErrorCode.NONE
        assert follower.fetch() == {}

    run(scenario())


def test_replies_end_at_a_batch_and_take_turns(broker: Broker) -> None:
    following = Following(broker, partitions=3)
    for index in range(3):
        following.append(10, index=index, size=100)
    offsets = [0, 0, 0]
    answers = following.opened(*offsets)
    assert [base_offsets(answers[index]) for index in range(3)] == [list(range(10))] * 3
    size = len(bytes_of(answers[0])) // 10
    orders: list[list[int]] = []
    while any(offset < 10 for offset in offsets):
        answers = following.follower.fetch(
            *(position(offsets[index], index=index) for index in range(3)),
            max_bytes=int(2.5 * size),
        )
        sent = {index: base_offsets(one) for index, one in answers.items() if one.records}
        orders.append(list(sent))
        assert sum(map(len, sent.values())) == 2 or min(offsets) >= 9
        for index, batches in sent.items():
            assert batches[0] == offsets[index]
            offsets[index] += len(batches)
    # None gets a second turn before each of the others has had its own.
    assert {index for turn in orders[:3] for index in turn} == {0, 1, 2}


def test_a_batch_larger_than_the_limit_is_sent_all_the_same(following: Following) -> None:
    following.append(2, size=5_000)
    answers = following.follower.fetch(position(0, max_bytes=100), max_bytes=100)
    assert base_offsets(answers[0]) == [0]


def test_records_that_are_deleted_before_they_were_fetched_are_out_of_range(
    following: Following,
) -> None:
    following.append(3)
    following.opened(0)
    partition = following.broker.partition("t")
    partition.follower_fetched(OTHER, offset=3, broker_epoch=1, now_ms=0)
    partition.advance_start(Offset(2))
    assert code(following.follower.fetch()) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert code(following.follower.fetch(position(2))) == ErrorCode.NONE


def test_a_forgotten_partition_is_not_observed(broker: Broker) -> None:
    following = Following(broker, partitions=2)
    following.opened(0, 0)
    following.append(index=0)
    following.follower.fetch(forget=(0,))
    assert not broker.partition("t", 0).observers
    assert len(broker.partition("t", 1).observers) == 1
    broker.services.follower_sessions.check()
    following.append(index=0)
    assert following.follower.fetch() == {}


def test_a_session_is_that_of_its_node_and_of_its_order(following: Following) -> None:
    broker, follower = following.broker, following.follower
    following.opened(0)

    def error(request: Any) -> ErrorCode:
        response = broker.ask(fetch_api.API, request, FetchResponse, version=VERSION)
        return ErrorCode(response.error_code)

    again = follower.request()
    assert error(again) == ErrorCode.NONE
    assert error(again) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    another = follower.request()
    another.session_id += 1
    assert error(another) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    of_another_node = follower.request()
    assert of_another_node.replica_state is not None
    of_another_node.replica_state.replica_id = THIRD
    assert error(of_another_node) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    of_a_consumer = follower.request()
    of_a_consumer.replica_state = None
    assert error(of_a_consumer) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_new_session_of_a_node_replaces_the_one_before(following: Following) -> None:
    async def scenario() -> None:
        following.opened(0)
        waiting = following.follower.poll()
        await settle()
        for _ in range(3):
            FetchingFollower(following.broker, following.follower.topic_id).fetch(position(0))
        assert (await waiting).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert len(following.broker.partition("t").observers) == 1
        assert len(following.broker.services.follower_sessions.by_node) == 1

    run(scenario())


def test_a_connection_that_is_lost_leaves_nothing_behind(following: Following) -> None:
    async def scenario() -> None:
        following.opened(0)
        waiting = following.follower.poll()
        await settle()
        waiting.cancel()
        await settle()
        assert not following.broker.partition("t").observers
        assert not following.broker.services.follower_sessions.by_node
        following.append()

    run(scenario())


def test_a_superseded_fetch_whose_connection_is_lost_ends_no_session(following: Following) -> None:
    broker = following.broker

    def send(request: FetchRequest) -> PendingReply:
        parts = encode_request(request, version=VERSION, correlation_id=7, client_id="t")
        frame = memoryview(bytearray(b"".join(cast(list[bytes], parts))))[4:]
        dispatch = Dispatch(broker.services, [fetch_api.API], listener=LISTENER)
        received_ms = broker.world.clock.monotonic_ms()
        answer = dispatch.answer(
            frame,
            api_key_of(frame),
            peer=Address(host="127.0.0.1", port=1),
            received_ms=received_ms,
        )
        assert isinstance(answer, PendingReply)
        return answer

    async def scenario() -> None:
        following.opened(0)
        first = send(following.follower.request(wait_ms=600_000))
        second = send(following.follower.request(wait_ms=600_000))
        assert first.is_filled
        first.abandon()
        assert OTHER in broker.services.follower_sessions.by_node
        second.abandon()
        assert OTHER not in broker.services.follower_sessions.by_node

    run(scenario())


def test_a_fetch_without_a_session_is_answered_and_forgotten(following: Following) -> None:
    async def scenario() -> None:
        follower = following.follower
        follower.epoch = -1
        poll = follower.poll(position(0))
        await settle()
        assert not poll.done()
        following.append()
        answers = follower.taken(await poll)
        assert base_offsets(answers[0]) == [0]
        assert follower.session_id == 0
        assert not following.broker.partition("t").observers

    run(scenario())


def test_a_follower_that_gets_no_session_waits_for_records_too(following: Following) -> None:
    """Its registration is not known here, or not any more."""

    async def scenario() -> None:
        broker, follower = following.broker, following.follower
        image = broker.services.image
        broker.services.image = replace(image, brokers={NODE: image.brokers[NODE]})
        poll = follower.poll(position(0))
        await settle()
        assert not poll.done()
        following.append()
        answers = follower.taken(await poll)
        assert base_offsets(answers[0]) == [0]
        assert follower.session_id == 0
        assert not broker.partition("t").observers

    run(scenario())


def test_a_session_of_many_partitions_is_opened_in_turns(broker: Broker) -> None:
    count = 2 * ENTRIES_PER_TURN + 10
    following = Following(broker, partitions=count)

    async def scenario() -> None:
        for index in (0, count - 1):
            following.append(index=index)
        named = [position(0, index=index) for index in range(count)]
        answers = following.follower.taken(await following.follower.poll(*named))
        assert len(answers) == count
        assert [index for index, one in answers.items() if one.records] == [0, count - 1]
        poll = following.follower.poll(*(position(1, index=index) for index in (0, count - 1)))
        await settle()
        following.append(index=5)
        assert 5 in following.follower.taken(await poll)
        broker.services.follower_sessions.check()

    run(scenario())


def many_named(following: Following, count: int) -> "asyncio.Future[FetchResponse]":
    """A fetch of an open session that names so many partitions that it is noted by turns."""
    following.opened(0)
    return following.follower.poll(*(position(0, index=index) for index in range(1, count)))


def test_positions_that_another_fetch_cuts_off_are_asked_for_again(broker: Broker) -> None:
    count = 2 * ENTRIES_PER_TURN + 10
    following = Following(broker, partitions=count)

    async def scenario() -> None:
        first = many_named(following, count)
        await asyncio.sleep(0)
        second = following.follower.poll()
        # The follower names everything again only if the last reply says that the session is lost.
        assert (await first).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert (await second).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert not broker.services.follower_sessions.by_node
        assert not any(broker.partition("t", index).observers for index in range(count))

    run(scenario())


def test_a_session_that_is_replaced_while_positions_are_noted_observes_nothing(
    broker: Broker,
) -> None:
    count = 2 * ENTRIES_PER_TURN + 10
    following = Following(broker, partitions=count)

    async def scenario() -> None:
        first = many_named(following, count)
        await asyncio.sleep(0)
        again = FetchingFollower(broker, following.follower.topic_id)
        again.fetch(position(0))
        assert (await first).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert len(broker.partition("t", 0).observers) == 1
        assert not any(broker.partition("t", index).observers for index in range(1, count))

    run(scenario())


class Wanted:
    """Notes which in-sync sets should change."""

    def __init__(self) -> None:
        self.partitions: list[Partition] = []

    def want(self, partition: Partition) -> None:
        self.partitions.append(partition)


def test_a_follower_that_has_caught_up_is_to_be_added(broker: Broker) -> None:
    following = Following(broker)
    topic = broker.services.image.topics_by_name["t"]
    [partition] = topic.partitions
    broker.change_topic(
        replace(topic, partitions=(replace(partition, isr=(NODE,), partition_epoch=1),))
    )
    broker.services.in_sync_changes = wanted = Wanted()
    following.append(2)
    following.opened(0)
    assert wanted.partitions == []
    following.follower.fetch(position(2))
    assert wanted.partitions == [broker.partition("t")]


class LaterClock:
    """The clock of the world, and some time more."""

    def __init__(self, clock: Clock, *, later_ms: int) -> None:
        self._clock = clock
        self._later_ms = later_ms

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._later_ms

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms() + self._later_ms

    def monotonic_us(self) -> int:
        return self._clock.monotonic_us() + self._later_ms * 1000


def is_lagging(following: Following, *, later_ms: int) -> bool:
    """Whether the leader would have the follower taken out of the in-sync set."""
    change = following.broker.partition("t").in_sync_change(
        now_ms=following.broker.world.clock.monotonic_ms() + later_ms,
        lag_ms_max=LAG_MS,
        can_join=lambda node, epoch: True,
    )
    return change is not None


def let_time_pass(broker: Broker) -> None:
    clock = LaterClock(broker.world.clock, later_ms=SINCE_LONG_AGO_MS)
    broker.services.world = broker.world = replace(broker.world, clock=clock)


def test_a_follower_of_an_idle_partition_does_not_lag_when_it_is_written_to(
    following: Following,
) -> None:
    following.opened(0)
    let_time_pass(following.broker)
    following.follower.fetch()  # names nothing
    following.append()
    assert not is_lagging(following, later_ms=LAG_MS // 2)
    assert is_lagging(following, later_ms=LAG_MS * 2)


def test_a_follower_that_is_silent_lags_when_the_partition_is_written_to(
    following: Following,
) -> None:
    following.opened(0)
    let_time_pass(following.broker)
    assert not is_lagging(following, later_ms=0)
    following.append()
    assert is_lagging(following, later_ms=0)


def test_errors_of_followers_are_counted_once(following: Following, way: str) -> None:
    stats = following.broker.services.request_stats = RequestStats()
    following.append()
    following.opened(1)
    assert stats.errors == {}
    following.change(leader=OTHER, epoch=1)
    assert code(following.follower.fetch(position(1))) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    # Those of messages are counted by dispatch, which this test goes without.
    here = 1 if way == "bytes" else 0
    assert stats.errors.get((ApiKey.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER), 0) == here
