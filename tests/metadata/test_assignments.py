"""Who holds a partition while it moves, however often its target changes."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.controller.assignment import Assignment
from penstock.model.identity import NodeId

nodes = st.lists(st.integers(1, 8).map(NodeId), min_size=1, max_size=5, unique=True)


@given(original=nodes, targets=st.lists(nodes, min_size=1, max_size=5))
def test_nobody_who_may_be_in_sync_is_dropped_before_the_end(
    original: list[NodeId], targets: list[list[NodeId]]
) -> None:
    assignment = Assignment(replicas=tuple(original))
    held = set(original)
    for target in targets:
        assignment = assignment.towards(target)
        held.update(target)
        assert set(assignment.replicas) == held
        assert assignment.replicas[: len(target)] == tuple(target)
        assert assignment.target == tuple(target)
        assert set(assignment.original) == set(original)
        assert assignment.is_changing == (held != set(target) or held != set(original))
    assert assignment.completed() == Assignment(replicas=tuple(targets[-1]))
    reverted = assignment.reverted()
    assert not reverted.is_changing
    assert set(reverted.replicas) == set(original)


@given(original=nodes, target=nodes)
def test_who_comes_is_added_and_who_goes_is_removed(
    original: list[NodeId], target: list[NodeId]
) -> None:
    assignment = Assignment(replicas=tuple(original)).towards(target)
    assert assignment.adding == tuple(sorted(set(target) - set(original)))
    assert assignment.removing == tuple(sorted(set(original) - set(target)))
    assert assignment.replicas == (*target, *assignment.removing)
