"""Which broker a partition is read from: its leader, or a replica that the leader named."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Cursor, ReadReplica, Reset
from penstock.client.consume.fetch_request import (
    FetchRedirected,
    FetchRules,
    fetch_request,
    may_be_redirected,
    named_replica,
    outcome,
)
from penstock.client.consume.group_consumer import GroupRules
from penstock.client.network.channel import Channel
from penstock.client.network.cluster import Cluster, ClusterRules, Lane
from penstock.client.network.errors import ClientError, ConnectionLost, TimedOut
from penstock.client.network.routing import BrokerView, ClusterView, PartitionView, TopicView
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from penstock.world.clock import RealClock
from penstock.world.ports import Address
from penstock.world.tcp import TcpNetwork

LEADER, NEAR = NodeId(1), NodeId(2)
PLACE = TopicPartition("t", 0)
ID = TopicId(b"t" * 16)
UNTIL_MS = 1_000


def view(
    *, leader: NodeId | None = LEADER, epoch: int = 5, brokers: tuple[NodeId, ...] = (LEADER, NEAR)
) -> ClusterView:
    partition = PartitionView(index=0, leader=leader, leader_epoch=LeaderEpoch(epoch))
    topic = TopicView(name="t", topic_id=ID, internal=False, partitions=(partition,))
    addresses = {
        node: BrokerView(node_id=node, address=Address(host="h", port=node)) for node in brokers
    }
    return ClusterView(brokers=addresses, topics={"t": topic})


def cursor() -> Cursor:
    near = ReadReplica(node=NEAR, leader_epoch=LeaderEpoch(5), until_ms=UNTIL_MS)
    return Cursor(partition=PLACE, look_up=Reset.NONE, fetch_position=Offset(0), read_replica=near)


def test_replica_that_the_leader_named_is_read_until_its_time_is_over() -> None:
    assert named_replica(cursor(), view(), now_ms=UNTIL_MS - 1) == NEAR
    assert named_replica(cursor(), view(), now_ms=UNTIL_MS) is None


def test_a_new_leader_is_asked_itself() -> None:
    assert named_replica(cursor(), view(epoch=6), now_ms=0) is None
    assert named_replica(cursor(), view(leader=None), now_ms=0) is None


def test_leader_is_read_when_the_replica_is_no_broker_any_more() -> None:
    assert named_replica(cursor(), view(brokers=(LEADER,)), now_ms=0) is None


def test_leader_is_read_while_it_has_named_nobody() -> None:
    alone = replace(cursor(), read_replica=None)
    assert named_replica(alone, view(), now_ms=0) is None


def test_rack_is_kept_from_a_leader_that_is_read_in_the_place_of_the_replica_it_named() -> None:
    alone, rules = replace(cursor(), read_replica=None), FetchRules(rack="near")
    assert may_be_redirected([alone], LEADER)
    assert may_be_redirected([alone, cursor()], NEAR)  # which leads the first of them
    assert not may_be_redirected([alone, cursor()], LEADER)
    told, _ = fetch_request([cursor()], view(), rules)
    kept, _ = fetch_request([cursor()], view(), rules, with_rack=False)
    assert (told.rack_id, kept.rack_id) == ("near", "")


def test_reply_that_names_a_replica_is_no_empty_reply() -> None:
    rules = FetchRules(rack="near")
    _, asked = fetch_request([cursor()], view(), rules)
    told = PartitionData(partition_index=0, preferred_read_replica=NEAR, records=None)
    reply = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[told])])
    assert outcome(reply, asked, view(), rules) == [FetchRedirected(asked=asked[0], to=NEAR)]


def test_member_of_a_group_reads_in_the_rack_of_the_group_unless_it_names_another() -> None:
    def rack(*, of_group: str | None, of_fetches: str) -> str:
        reading = ConsumerRules(fetch=FetchRules(rack=of_fetches), reset=Reset.EARLIEST)
        rules = GroupRules(rack=of_group, reading=reading)
        assert rules.reading_in_rack.reset is Reset.EARLIEST
        return rules.reading_in_rack.fetch.rack

    assert rack(of_group="near", of_fetches="") == "near"
    assert rack(of_group="near", of_fetches="far") == "far"
    assert rack(of_group=None, of_fetches="far") == "far"
    assert rack(of_group=None, of_fetches="") == ""


Answer = Callable[[NodeId, str], FetchResponse | ClientError]  # to a fetch, by the rack it tells


class AnsweringChannel:
    is_open = True
    address = Address(host="h", port=1)

    def __init__(self, node: NodeId, answer: Answer, asked: list[tuple[NodeId, str]]) -> None:
        self.node = node
        self.answer = answer
        self.asked = asked

    def version_for(self, request: type[FetchRequest], *, at_most: int | None = None) -> int:
        return 12

    def post(
        self, request: FetchRequest, reply_type: type[FetchResponse], *, version: int
    ) -> asyncio.Future[FetchResponse]:
        self.asked.append((self.node, request.rack_id))
        future = asyncio.get_running_loop().create_future()
        answer = self.answer(self.node, request.rack_id)
        if isinstance(answer, ClientError):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        return future

    def close(self, error: ClientError | None = None) -> None:
        raise AssertionError("every fetch is answered at once")


class AnsweringCluster(Cluster):
    """A leader and a replica, as far as the test lets them be reached."""

    def __init__(self, answer: Answer, *, reached: set[NodeId], backoff_ms: int) -> None:
        rules = ClusterRules(backoff_ms=backoff_ms)
        address = AnsweringChannel.address
        super().__init__(TcpNetwork(), RealClock(), [address], rules=rules)
        self.view = view()
        self.answer = answer
        self.reached = reached
        self.asked: list[tuple[NodeId, str]] = []

    async def channel(self, node: NodeId, lane: Lane = Lane.QUESTIONS) -> Channel:
        if node not in self.reached:
            raise ConnectionLost(f"cannot connect to {node}")
        # The consumer uses no more of a channel than this.
        return AnsweringChannel(node, self.answer, self.asked)  # type: ignore[return-value]

    async def refresh(self, topics: object = ()) -> ClusterView:
        return self.view


def fetched(*, replica: int) -> FetchResponse:
    told = PartitionData(partition_index=0, preferred_read_replica=replica, records=None)
    topic = FetchableTopicResponse(topic="t", topic_id=ID, partitions=[told])
    return FetchResponse(responses=[topic])


async def polled(cluster: AnsweringCluster) -> list[tuple[NodeId, str]]:
    """Which nodes a consumer of rack "near" asked, and the rack that it told."""
    rules = ConsumerRules(fetch=FetchRules(rack="near"), reset=Reset.EARLIEST)
    async with cluster, Consumer(cluster, rules=rules) as consumer:
        await consumer.assign([PLACE])
        consumer.seek(PLACE, 0)
        for _ in range(20):
            await consumer.poll(wait_ms=5)
    return cluster.asked


def test_leader_that_names_an_unreachable_replica_whatever_the_rack_is_asked_after_a_pause() -> (
    None
):
    cluster = AnsweringCluster(
        lambda node, rack: fetched(replica=NEAR), reached={LEADER}, backoff_ms=60_000
    )
    assert asyncio.run(polled(cluster)) == [(LEADER, "near"), (LEADER, "")]


@pytest.mark.parametrize(
    ("error", "is_asked_again"), [(ConnectionLost("reset"), True), (TimedOut("late"), False)]
)
def test_replica_that_lost_a_connection_is_asked_again_and_one_that_is_late_is_not(
    error: ClientError, is_asked_again: bool
) -> None:
    def answer(node: NodeId, rack: str) -> FetchResponse | ClientError:
        if node == NEAR:
            return error
        return fetched(replica=NEAR if rack else -1)

    cluster = AnsweringCluster(answer, reached={LEADER, NEAR}, backoff_ms=1)
    asked = asyncio.run(polled(cluster))
    assert asked[:2] == [(LEADER, "near"), (NEAR, "near")]
    assert ((NEAR, "near") in asked[2:]) == is_asked_again


def refused(code: ErrorCode) -> FetchResponse:
    told = PartitionData(partition_index=0, error_code=code, records=None)
    topic = FetchableTopicResponse(topic="t", topic_id=ID, partitions=[told])
    return FetchResponse(responses=[topic])


@pytest.mark.parametrize(
    "failure",
    [ConnectionLost("reset"), TimedOut("late"), refused(ErrorCode.KAFKA_STORAGE_ERROR)],
    ids=["connection lost", "late", "bad disk"],
)
def test_leader_is_read_when_every_fetch_from_the_replica_it_names_fails(
    failure: FetchResponse | ClientError,
) -> None:
    def answer(node: NodeId, rack: str) -> FetchResponse | ClientError:
        if node == NEAR:
            return failure
        return fetched(replica=NEAR if rack else -1)

    cluster = AnsweringCluster(answer, reached={LEADER, NEAR}, backoff_ms=1)
    asked = asyncio.run(polled(cluster))
    assert asked.count((NEAR, "near")) <= 2
    assert (LEADER, "") in asked  # who does not know the rack sends records


def test_replica_that_failed_once_is_read_again() -> None:
    failures = [refused(ErrorCode.KAFKA_STORAGE_ERROR)]

    def answer(node: NodeId, rack: str) -> FetchResponse | ClientError:
        if node == NEAR and failures:
            return failures.pop()
        return fetched(replica=NEAR if node == LEADER and rack else -1)

    cluster = AnsweringCluster(answer, reached={LEADER, NEAR}, backoff_ms=1)
    asked = asyncio.run(polled(cluster))
    assert asked.count((NEAR, "near")) > 2
    assert (LEADER, "") not in asked
