"""Replicas are spread; a fenced broker is chosen only when it must be, and never leads."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.controller.decision_context import Refusal
from penstock.metadata.controller.placement import place
from penstock.metadata.controller.state import ControllerState
from penstock.model.identity import NodeId, TopicId
from penstock.wire.messages.metadata_records.broker import RegisterBrokerRecord


def cluster(usable: int, fenced: int) -> ControllerState:
    state = ControllerState()
    for node in range(usable + fenced):
        state.apply(RegisterBrokerRecord(broker_id=node, broker_epoch=1, fenced=node >= usable))
    return state


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
