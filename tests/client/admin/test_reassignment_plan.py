"""Topics that are spread over brokers: few copies, as many replicas as before, racks apart."""

from penstock.client.admin.reassignment_plan import drained, spread
from penstock.client.admin.reassignments import Reassignment
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


Moving = dict[TopicPartition, Reassignment]


def moving_to(target: tuple[int, ...], *, removing: tuple[int, ...], index: int = 0) -> Moving:
    """A move of one partition, as the controller lists it."""
    place = TopicPartition("t", index)
    return {
        place: Reassignment(
            partition=place,
            replicas=tuple(map(NodeId, (*target, *removing))),
            adding=tuple(map(NodeId, target)),
            removing=tuple(map(NodeId, removing)),
        )
    }


def spread_over(
    known: ClusterView, *brokers: int, moving: Moving | None = None
) -> list[tuple[int, ...]]:
    places = [TopicPartition("t", index) for index in range(len(known.topics["t"].partitions))]
    targets = spread(known, places, list(map(NodeId, brokers)), moving=moving or {})
    return list(map(tuple, targets.values()))


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
    targets = spread(
        known, places, list(map(NodeId, (1, 2, 3, 4, 5))), moving={}, replicas_wanted=3
    )
    first, second = targets.values()
    assert first[0] == 1
    assert len(set(first)) == 3
    assert {RACKS[node] for node in first} == {"a", "b", "c"}
    assert second == (2, 3, 4)


def test_new_replicas_are_in_racks_without_one() -> None:
    for held in spread_over(view(*[(1, 2)] * 6), 1, 3, 4):
        assert {RACKS[node] for node in held} == {"a", "b"}


def test_a_partition_that_moves_keeps_the_number_of_its_replicas() -> None:
    moving = moving_to((3, 2), removing=(1,))
    assert spread_over(view((3, 2, 1)), 2, 3, 4, moving=moving) == [(3, 2)]
    assert spread_over(view((3, 2, 1)), 2, 3, moving=moving) == [(3, 2)]
    [one] = spread_over(view((3, 2, 1)), 4, 5, moving=moving)
    assert set(one) == {4, 5}


def drained_of(
    known: ClusterView, *leaving: int, down: int = 0, moving: Moving | None = None
) -> dict[int, tuple[int, ...]]:
    """The new replicas of the partitions that move."""
    running = {node: node != down for node in known.brokers}
    targets = drained(known, list(map(NodeId, leaving)), running, moving=moving or {})
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


def test_a_drain_that_runs_already_keeps_its_targets() -> None:
    moving = moving_to((3, 2), removing=(1,))
    found = drained_of(view((3, 2, 1), (1, 4)), 1, moving=moving)
    assert found[0] == (3, 2)
    assert len(found[1]) == 2


def test_a_drain_of_a_broker_that_a_partition_moves_to_sends_it_elsewhere() -> None:
    found = drained_of(view((3, 2, 1)), 3, moving=moving_to((3, 2), removing=(1,)))
    assert len(found[0]) == 2
    assert 2 in found[0] and 3 not in found[0]
