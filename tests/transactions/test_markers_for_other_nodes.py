"""Markers of partitions that other nodes lead: which request they travel in, and when again."""

import random

import pytest

from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, ProducerEpoch, ProducerId, TopicPartition
from penstock.model.limit import MARKERS_PER_REQUEST_MAX
from penstock.model.offset import LeaderEpoch
from penstock.transactions.marker_queue import (
    PAUSE_MS,
    PAUSE_MS_MAX,
    Leader,
    MarkerKey,
    MarkerQueue,
    QueuedMarker,
    Route,
    SentMarker,
    Unled,
)
from penstock.transactions.markers import SendMarkers

HERE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 0)
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def leader(node_id: NodeId, epoch: int = 0) -> Leader:
    return Leader(node_id, LeaderEpoch(epoch))


class Nodes:
    """The queue of node 1, and where the partitions are."""

    def __init__(self, routes: dict[TopicPartition, Route]) -> None:
        self.routes = routes
        self.ended: set[str] = set()  # transactions whose coordinator is no longer here
        self.now_ms = 0
        self.queue: MarkerQueue[str] = MarkerQueue(
            node_id=HERE,
            route=lambda name: self.routes.get(name, Unled.DELETED),
            is_wanted=lambda owner: owner not in self.ended,
        )

    def add(self, producer: int, *names: TopicPartition) -> None:
        for name in names:
            owner = f"t{producer}"
            self.queue.add(QueuedMarker(owner=owner, markers=markers(producer), partition=name))
            self.queue.check()

    def take(self) -> dict[NodeId, list[tuple[int, str, int]]]:
        """Of each request: producer, partition, leader epoch."""
        self.queue.resume(now_ms=self.now_ms)
        taken = self.queue.take()
        self.queue.check()
        return {
            node: [(one.markers.producer_id, str(one.partition), epoch) for one, epoch in sent]
            for node, sent in taken.items()
        }

    def move(self, name: TopicPartition, route: Route) -> None:
        self.routes[name] = route
        self.queue.leaders_changed({name.topic})
        self.queue.check()

    def answer(self, node: NodeId, **codes: ErrorCode) -> list[ErrorCode]:
        """By partition, such as orders=...: what the node answers about producer 7."""
        refused = self.queue.answered(
            node,
            {key(7, TopicPartition(topic, 0)): code for topic, code in codes.items()},
            now_ms=self.now_ms,
        )
        self.queue.check()
        return [code for _, code, _ in refused]

    def finished(self) -> list[str]:
        done = [f"{one.owner} {one.partition}" for one in self.queue.finished]
        self.queue.finished.clear()
        return done

    def returned(self) -> list[str]:
        back = [f"{one.owner} {one.partition}" for one in self.queue.returned]
        self.queue.returned.clear()
        return back


def markers(producer: int) -> SendMarkers:
    return SendMarkers(
        transactional_id=f"t{producer}",
        number=1,
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        coordinator_epoch=0,
        commit=True,
        partitions=(),
        transaction_version=2,
    )


def key(producer: int, name: TopicPartition) -> MarkerKey:
    return MarkerKey(ProducerId(producer), name)


def test_each_leader_gets_its_partitions_with_their_leader_epochs() -> None:
    nodes = Nodes({ORDERS: leader(TWO, 5), BILLS: leader(THREE, 8)})
    nodes.add(7, ORDERS, BILLS)
    assert nodes.take() == {TWO: [(7, "orders-0", 5)], THREE: [(7, "bills-0", 8)]}
    assert nodes.answer(THREE, bills=ErrorCode.NONE) == []
    assert nodes.finished() == ["t7 bills-0"]
    assert nodes.answer(TWO, orders=ErrorCode.NONE) == []
    assert nodes.finished() == ["t7 orders-0"]
    assert len(nodes.queue) == 0


def test_what_gathers_while_a_request_is_outstanding_goes_into_the_next_one() -> None:
    nodes = Nodes({ORDERS: leader(TWO), BILLS: leader(TWO)})
    nodes.add(7, ORDERS)
    assert nodes.take() == {TWO: [(7, "orders-0", 0)]}
    nodes.add(8, ORDERS, BILLS)
    nodes.add(9, ORDERS)
    assert nodes.take() == {}
    nodes.answer(TWO, orders=ErrorCode.NONE)
    [gathered] = nodes.take().values()
    assert sorted(gathered) == [(8, "bills-0", 0), (8, "orders-0", 0), (9, "orders-0", 0)]


def test_a_request_has_a_bound_and_the_rest_follows() -> None:
    nodes = Nodes({ORDERS: leader(TWO), BILLS: leader(TWO)})
    for producer in range(MARKERS_PER_REQUEST_MAX + 10):
        nodes.queue.add(QueuedMarker(owner="t", markers=markers(producer), partition=ORDERS))
    nodes.add(7, BILLS)
    [first] = nodes.take().values()
    assert len(first) == MARKERS_PER_REQUEST_MAX
    nodes.queue.answered(
        TWO, {key(producer, ORDERS): ErrorCode.NONE for producer, _, _ in first}, now_ms=0
    )
    assert [len(sent) for sent in nodes.take().values()] == [10 + 1]


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_marker_is_finished_when_it_is_written_or_the_producer_has_moved_on(
    code: ErrorCode,
) -> None:
    nodes = Nodes({ORDERS: leader(TWO)})
    nodes.add(7, ORDERS)
    nodes.take()
    assert nodes.answer(TWO, orders=code) == []
    assert nodes.finished() == ["t7 orders-0"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # its image may be behind ours
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_any_other_answer_means_another_try_after_a_growing_pause(code: ErrorCode) -> None:
    nodes = Nodes({ORDERS: leader(TWO)})
    nodes.add(7, ORDERS)
    pauses = []
    for _ in range(8):
        assert nodes.take() == {TWO: [(7, "orders-0", 0)]}
        assert nodes.answer(TWO, orders=code) == [code]
        assert nodes.take() == {}
        resumed_ms = nodes.queue.next_ms()
        assert resumed_ms is not None
        pauses.append(resumed_ms - nodes.now_ms)
        nodes.now_ms = resumed_ms
    assert pauses[0] == PAUSE_MS
    assert pauses == sorted(pauses)
    assert pauses[-1] == PAUSE_MS_MAX
    assert nodes.finished() == []


def test_a_refusal_is_worth_telling_when_it_lasts() -> None:
    nodes = Nodes({ORDERS: leader(TWO)})
    nodes.add(7, ORDERS)
    lasting = []
    for _ in range(6):
        nodes.take()
        [refused] = nodes.queue.answered(TWO, {key(7, ORDERS): NOT_LEADER}, now_ms=nodes.now_ms)
        lasting.append(refused.lasts)
        nodes.now_ms += PAUSE_MS_MAX
    assert lasting == [False] * 4 + [True] * 2


def test_a_refused_partition_does_not_hold_up_the_others_of_its_node() -> None:
    nodes = Nodes({ORDERS: leader(TWO), BILLS: leader(TWO)})
    nodes.add(7, ORDERS, BILLS)
    nodes.take()
    nodes.answer(TWO, orders=NOT_LEADER, bills=ErrorCode.NONE)
    nodes.add(8, ORDERS, BILLS)
    assert nodes.take() == {TWO: [(8, "bills-0", 0)]}


def test_an_answer_that_leaves_a_marker_out_does_not_finish_it() -> None:
    nodes = Nodes({ORDERS: leader(TWO)})
    nodes.add(7, ORDERS)
    nodes.take()
    assert nodes.answer(TWO) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert nodes.finished() == []


def test_a_deleted_partition_needs_no_marker_by_our_own_image() -> None:
    nodes = Nodes({ORDERS: leader(TWO), BILLS: Unled.NO_LEADER})
    nodes.add(7, ORDERS, BILLS)
    nodes.take()
    nodes.move(BILLS, Unled.DELETED)
    assert nodes.finished() == ["t7 bills-0"]
    nodes.move(ORDERS, Unled.DELETED)  # while its request is outstanding
    assert nodes.finished() == ["t7 orders-0"]
    nodes.answer(TWO, orders=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert nodes.finished() == []
    assert len(nodes.queue) == 0


def test_a_partition_without_a_leader_waits_for_one() -> None:
    nodes = Nodes({ORDERS: Unled.NO_LEADER})
    nodes.add(7, ORDERS)
    assert nodes.take() == {}
    nodes.now_ms = 3_600_000
    assert nodes.take() == {}
    assert nodes.queue.next_ms() is None, "nothing is polled"
    assert nodes.finished() == []
    nodes.move(ORDERS, leader(THREE, 4))
    assert nodes.take() == {THREE: [(7, "orders-0", 4)]}


def test_a_partition_that_moves_here_is_given_back() -> None:
    nodes = Nodes({ORDERS: leader(TWO)})
    nodes.add(7, ORDERS)
    nodes.take()
    nodes.move(ORDERS, leader(HERE, 1))
    assert nodes.returned() == ["t7 orders-0"]
    nodes.answer(TWO, orders=ErrorCode.NONE)
    assert nodes.finished() == [], "it was the answer of the leader before"


def test_a_leader_that_moves_is_followed_at_once_and_its_predecessor_no_longer_counts() -> None:
    nodes = Nodes({ORDERS: leader(TWO, 5), BILLS: leader(TWO, 5)})
    nodes.add(7, ORDERS, BILLS)
    nodes.take()
    nodes.move(ORDERS, leader(THREE, 6))
    assert nodes.take() == {THREE: [(7, "orders-0", 6)]}
    nodes.answer(TWO, orders=ErrorCode.NONE, bills=ErrorCode.NONE)
    assert nodes.finished() == ["t7 bills-0"]
    nodes.answer(THREE, orders=ErrorCode.NONE)
    assert nodes.finished() == ["t7 orders-0"]


def test_a_new_epoch_of_the_same_leader_does_not_make_a_second_request() -> None:
    """The first one is still outstanding, and its node handles one after the other anyway."""
    nodes = Nodes({ORDERS: leader(TWO, 5)})
    nodes.add(7, ORDERS)
    nodes.take()
    nodes.move(ORDERS, leader(TWO, 6))
    assert nodes.take() == {}
    assert nodes.answer(TWO, orders=NOT_LEADER) == [NOT_LEADER]
    assert nodes.take() == {TWO: [(7, "orders-0", 6)]}, "without a pause: the epoch is another"


def test_a_change_of_the_leader_ends_the_pause_of_a_refused_marker() -> None:
    nodes = Nodes({ORDERS: leader(TWO, 5)})
    nodes.add(7, ORDERS)
    nodes.take()
    nodes.answer(TWO, orders=NOT_LEADER)
    assert nodes.take() == {}
    nodes.move(ORDERS, leader(TWO, 6))
    assert nodes.take() == {TWO: [(7, "orders-0", 6)]}


def test_a_node_that_does_not_answer_is_tried_again_later_and_named_once() -> None:
    nodes = Nodes({ORDERS: leader(TWO), BILLS: leader(THREE)})
    nodes.add(7, ORDERS, BILLS)
    nodes.take()
    assert nodes.queue.failed(TWO, now_ms=0)
    nodes.answer(THREE, bills=ErrorCode.NONE)
    nodes.add(8, ORDERS, BILLS)
    assert nodes.take() == {THREE: [(8, "bills-0", 0)]}
    nodes.now_ms = PAUSE_MS
    assert sorted(nodes.take()[TWO]) == [(7, "orders-0", 0), (8, "orders-0", 0)]
    assert not nodes.queue.failed(TWO, now_ms=nodes.now_ms), "that is known already"
    nodes.queue.node_changed(TWO)
    assert len(nodes.take()[TWO]) == 2, "it was registered again"


def test_markers_of_a_coordinator_that_has_ended_are_not_sent() -> None:
    nodes = Nodes({ORDERS: leader(TWO), BILLS: Unled.NO_LEADER})
    nodes.add(7, ORDERS, BILLS)
    nodes.add(8, ORDERS)
    nodes.ended = {"t7"}
    assert nodes.take() == {TWO: [(8, "orders-0", 0)]}
    nodes.queue.forget_unwanted()
    nodes.queue.check()
    assert len(nodes.queue) == 1
    nodes.ended = {"t7", "t8"}
    nodes.queue.failed(TWO, now_ms=0)
    assert len(nodes.queue) == 0


@pytest.mark.parametrize("seed", range(60))
def test_every_marker_is_finished_once_whatever_happens_on_the_way(seed: int) -> None:
    """Nodes fail, refuse and answer late while leaders move; then all of that ends."""
    chance = random.Random(seed)
    names = [TopicPartition(topic, index) for topic in ("a", "b") for index in range(3)]
    nodes = Nodes({name: leader(chance.choice((TWO, THREE))) for name in names})
    queue = nodes.queue
    outstanding: dict[NodeId, tuple[SentMarker[str], ...]] = {}
    added: set[str] = set()
    over: list[str] = []

    def send() -> None:
        queue.resume(now_ms=nodes.now_ms)
        for node, sent in queue.take().items():
            assert node not in outstanding, "one request of a node"
            outstanding[node] = sent

    def answer(node: NodeId, code: ErrorCode) -> None:
        codes = {
            one.key: code if nodes.routes[one.partition] == (node, epoch) else NOT_LEADER
            for one, epoch in outstanding.pop(node)
        }
        queue.answered(node, codes, now_ms=nodes.now_ms)

    for producer in range(200):
        name = chance.choice(names)
        match chance.randrange(6):
            case 0 | 1:
                nodes.add(producer, name)
                added.add(f"t{producer} {name}")
            case 2:
                epoch = producer + 1
                route: Route = leader(chance.choice((HERE, TWO, THREE)), epoch)
                nodes.move(name, chance.choice((route, route, Unled.NO_LEADER)))
            case 3 if outstanding:
                node = chance.choice(list(outstanding))
                answer(node, chance.choice((ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)))
            case 4 if outstanding:
                node = chance.choice(list(outstanding))
                del outstanding[node]
                queue.failed(node, now_ms=nodes.now_ms)
            case _:
                nodes.now_ms += chance.randrange(2 * PAUSE_MS)
        send()
        queue.check()
        over += nodes.finished() + nodes.returned()
    for name in names:
        nodes.move(name, leader(TWO, 1_000))
    for _ in range(100):
        nodes.now_ms += PAUSE_MS_MAX
        send()
        for node in list(outstanding):
            answer(node, ErrorCode.NONE)
        queue.check()
        over += nodes.finished() + nodes.returned()
    assert sorted(over) == sorted(added)
    assert len(queue) == 0
