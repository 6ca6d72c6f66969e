"""Topics that are spread over brokers: few copies, as many replicas as before, racks apart."""

from penstock.client.admin.reassignment_plan import drained, spread
from penstock.client.network.routing import BrokerView, ClusterView, PartitionView, TopicView
from penstock.model.identity import NO_TOPIC_ID, NodeId, TopicPartition
from penstock.model.offset import LeaderEpoch
from penstock.world.ports import Address

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}


def view(*replicas: tuple[int, ...]) -> ClusterView:
    partitions = tuple(
        PartitionView(
            index=index,
            leader=NodeId(held[0]),
            leader_epoch=LeaderEpoch(0),
            replicas=tuple(map(NodeId, held)),
        )
        for index, held in enumerate(replicas)
    )
    topic = TopicView(name="t", topic_id=NO_TOPIC_ID, internal=False, partitions=partitions)
    return ClusterView(
        brokers={
            NodeId(node): BrokerView(
                node_id=NodeId(node), address=Address(host="localhost", port=node), rack=rack
            )
            for node, rack in RACKS.items()
        },
        topics={"t": topic},
    )


def spread_over(known: ClusterView, *brokers: int) -> list[tuple[int, ...]]:
    places = [TopicPartition("t", index) for index in range(len(known.topics["t"].partitions))]
    return list(map(tuple, spread(known, places, list(map(NodeId, brokers))).values()))


def test_replicas_that_are_on_the_brokers_stay() -> None:
    assert spread_over(view((1, 3), (3, 5)), 1, 3, 5) == [(1, 3), (3, 5)]
    [one] = spread_over(view((1, 2)), 1, 5)
    assert one == (1, 5)


def test_new_replicas_and_leaders_are_spread_evenly() -> None:
    found = spread_over(view((1,), (1,), (1,), (1,)), 2, 3, 4, 5)
    assert sorted(found) == [(2,), (3,), (4,), (5,)]
    led = [held[0] for held in spread_over(view(*[(1, 2)] * 4), 3, 5)]
    assert (led.count(3), led.count(5)) == (2, 2)


def test_replicas_are_added_up_to_a_number_or_taken_away() -> None:
    known = view((1,), (2, 3, 4, 5))
    places = [TopicPartition("t", index) for index in range(2)]
    targets = spread(known, places, list(map(NodeId, (1, 2, 3, 4, 5))), replicas_wanted=3)
    first, second = targets.values()
    assert first[0] == 1
    assert len(set(first)) == 3
    assert {RACKS[node] for node in first} == {"a", "b", "c"}
    assert second == (2, 3, 4)


def test_new_replicas_are_in_racks_without_one() -> None:
    for held in spread_over(view(*[(1, 2)] * 6), 1, 3, 4):
        assert {RACKS[node] for node in held} == {"a", "b"}


def drained_of(known: ClusterView, *leaving: int, down: int = 0) -> dict[int, tuple[int, ...]]:
    """The new replicas of the partitions that move."""
    running = {node: node != down for node in known.brokers}
    targets = drained(known, list(map(NodeId, leaving)), running)
    return {place.partition: tuple(held) for place, held in targets.items()}


def test_only_partitions_of_drained_brokers_move_and_their_other_replicas_stay() -> None:
    found = drained_of(view((1, 2), (3, 4), (5, 1)), 1)
    assert sorted(found) == [0, 2]
    assert 2 in found[0] and 5 in found[2]
    assert all(len(held) == 2 and 1 not in held for held in found.values())


def test_drained_replicas_go_where_few_are() -> None:
    found = drained_of(view((3,), (3,), (2,), (1,), (1,)), 1)
    assert sorted(found.values()) == [(4,), (5,)]


def test_a_replica_on_a_broker_that_is_down_stays_and_no_new_one_goes_there() -> None:
    found = drained_of(view((1, 3), (1, 2), (1, 2), (1, 2)), 1, down=3)
    assert set(found[0]) > {3} and found[0][0] != 3
    assert all(3 not in found[index] for index in (1, 2, 3))
