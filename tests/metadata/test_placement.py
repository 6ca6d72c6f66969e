"""Replicas are spread; a fenced broker is chosen only when it must be, and never leads."""

from collections import Counter
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.controller.decision_context import Refusal
from penstock.metadata.controller.placement import Replicas, place
from penstock.metadata.controller.state import ControllerState
from penstock.model.identity import NodeId, TopicId
from penstock.wire.messages.metadata_records.broker import RegisterBrokerRecord


def cluster(usable: int, fenced: int) -> ControllerState:
    state = ControllerState()
    for node in range(usable + fenced):
        state.apply(RegisterBrokerRecord(broker_id=node, broker_epoch=1, fenced=node >= usable))
    return state


def racked(*racks: str) -> ControllerState:
    """A broker for each letter: one word is one rack, and capital letters are fenced brokers."""
    state = ControllerState()
    for rack in racks:
        for letter in rack:
            state.apply(
                RegisterBrokerRecord(
                    broker_id=len(state.brokers),
                    broker_epoch=1,
                    rack=rack.lower(),
                    fenced=letter.isupper(),
                )
            )
    return state


def placed_in(
    state: ControllerState, *, partitions: int, replicas: int, start: int = 0
) -> tuple[Replicas, ...]:
    placed = place(
        state,
        topic_id=TopicId(start.to_bytes(16)),
        from_partition=0,
        count=partitions,
        replication_factor=replicas,
    )
    assert not isinstance(placed, Refusal)
    return placed


@given(
    usable=st.integers(1, 7),
    fenced=st.integers(0, 3),
    count=st.integers(1, 50),
    replicas=st.integers(1, 10),
    topic_id=st.binary(min_size=16, max_size=16),
    start=st.integers(0, 100),
)
def test_leaders_differ_by_one_partition_at_most(
    usable: int, fenced: int, count: int, replicas: int, topic_id: bytes, start: int
) -> None:
    placed = place(
        cluster(usable, fenced),
        topic_id=TopicId(topic_id),
        from_partition=start,
        count=count,
        replication_factor=replicas,
    )
    if replicas > usable + fenced:
        assert isinstance(placed, Refusal)
        return
    assert not isinstance(placed, Refusal)
    assert len(placed) == count
    leaders = Counter({NodeId(node): 0 for node in range(usable)})
    for assigned in placed:
        assert len(set(assigned)) == replicas
        assert assigned[0] < usable
        if replicas <= usable:
            assert all(node < usable for node in assigned)
        leaders[assigned[0]] += 1
    assert max(leaders.values()) - min(leaders.values()) <= 1


def test_topics_of_one_partition_spread_too() -> None:
    leaders = set()
    for number in range(9):
        placed = place(
            cluster(3, 0),
            topic_id=TopicId(number.to_bytes(16)),
            from_partition=0,
            count=1,
            replication_factor=1,
        )
        assert not isinstance(placed, Refusal)
        leaders.add(placed[0][0])
    assert leaders == {0, 1, 2}


def test_a_broker_that_fails_leaves_its_partitions_to_all_others() -> None:
    placed = placed_in(cluster(5, 0), partitions=20, replicas=2)
    for leader in range(5):
        followers = [replicas[1] for replicas in placed if replicas[0] == leader]
        assert sorted(followers) == [node for node in range(5) if node != leader]


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    fenced=st.sets(st.integers(0, 14)),
    replicas=st.integers(1, 6),
    start=st.integers(0, 1000),
)
def test_no_rack_has_a_second_replica_while_another_rack_could_have_its_first(
    sizes: list[int], fenced: set[int], replicas: int, start: int
) -> None:
    letters = "".join(chr(97 + number) * size for number, size in enumerate(sizes))
    marked = "".join(
        letter.upper() if node in fenced else letter for node, letter in enumerate(letters)
    )
    state = racked(*("".join(rack) for _, rack in groupby(marked, key=str.lower)))
    names = {node: broker.rack for node, broker in state.brokers.items()}
    usable = {node for node, broker in state.brokers.items() if not broker.fenced}
    if replicas > sum(sizes) or not usable:
        return
    size_of = Counter(names.values())
    for assigned in placed_in(state, partitions=30, replicas=replicas, start=start):
        assert assigned[0] in usable
        assert len(set(assigned)) == replicas
        held = Counter(names[node] for node in assigned)
        for rack, size in size_of.items():
            assert held[rack] == size or held[rack] >= max(held.values()) - 1
            unused = {node for node in usable if names[node] == rack} - set(assigned)
            fenced_ones = {node for node in assigned if names[node] == rack} - usable
            assert not (unused and fenced_ones)


@given(racks=st.integers(1, 4), size=st.integers(1, 3), start=st.integers(0, 50), data=st.data())
def test_racks_of_one_size_hold_as_many_leaders_and_replicas_each(
    racks: int, size: int, start: int, data: st.DataObject
) -> None:
    brokers = racks * size
    replicas = data.draw(st.integers(1, brokers))
    state = racked(*(chr(97 + rack) * size for rack in range(racks)))
    placed = placed_in(state, partitions=brokers, replicas=replicas, start=start * brokers)
    assert Counter(assigned[0] for assigned in placed) == dict.fromkeys(state.brokers, 1)
    held = Counter(node for assigned in placed for node in assigned)
    assert held == dict.fromkeys(state.brokers, replicas)


def test_successive_leaders_are_in_different_racks() -> None:
    state = racked("aaa", "bbb", "ccc")
    leaders = [assigned[0] for assigned in placed_in(state, partitions=9, replicas=1)]
    racks = [state.brokers[leader].rack for leader in leaders]
    assert racks == ["aaa", "bbb", "ccc"] * 3


def test_the_only_broker_of_a_rack_is_chosen_although_it_is_fenced() -> None:
    for assigned in placed_in(racked("aa", "bb", "C"), partitions=8, replicas=3):
        assert assigned[-1] == 4


def test_the_same_topic_is_placed_in_the_same_way() -> None:
    first = placed_in(racked("ab", "cd"), partitions=9, replicas=3, start=7)
    assert first == placed_in(racked("ab", "cd"), partitions=9, replicas=3, start=7)
    later = place(
        racked("ab", "cd"),
        topic_id=TopicId((7).to_bytes(16)),
        from_partition=4,
        count=5,
        replication_factor=3,
    )
    assert later == first[4:]
