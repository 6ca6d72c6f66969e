"""Plans that even out the load of brokers: valid, never worse, and with few bytes copied."""

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.admin.balance_plan import (
    BalancePlan,
    Change,
    PartitionLoad,
    node_loads,
    plan_balance,
)
from penstock.model.identity import NodeId, TopicPartition

Racks = Mapping[NodeId, str | None]
NEARLY = 1 + 1e-6
THREE: Racks = {NodeId(node): None for node in (1, 2, 3)}


PARTITIONS = st.lists(
    st.tuples(
        st.integers(0, 5),  # the first replica
        st.integers(1, 3),  # how many
        st.integers(0, 2),  # which of them leads
        st.integers(0, 10**9),
        st.integers(0, 1000),
        st.integers(0, 1000),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=25,
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[PartitionLoad], dict[NodeId, str | None]]:
    named = draw(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=2, max_size=6))
    racks = {NodeId(number): rack for number, rack in enumerate(named, start=1)}
    count = len(racks)
    loads = []
    for index, drawn in enumerate(draw(PARTITIONS)):
        first, many, leading, size_bytes, in_bytes, out_bytes, odd = drawn
        replicas = tuple(NodeId((first + k) % count + 1) for k in range(min(many, count)))
        loads.append(
            PartitionLoad(
                partition=TopicPartition("t", index),
                leader=replicas[leading % len(replicas)],
                replicas=replicas,
                size_bytes=size_bytes,
                in_bytes=in_bytes,
                out_bytes=out_bytes,
                requests=odd / 10,
                is_whole=odd > 0,
            )
        )
    # A broker that is down, whose replicas stay where they are.
    if count > 2 and draw(st.booleans()):
        del racks[NodeId(count)]
    return loads, racks


def after(partitions: Sequence[PartitionLoad], plan: BalancePlan) -> list[PartitionLoad]:
    changes = {change.partition: change for change in plan.changes}
    return [done(one, changes.get(one.partition)) for one in partitions]


def done(one: PartitionLoad, change: Change | None) -> PartitionLoad:
    if change is None:
        return one
    return PartitionLoad(
        partition=one.partition,
        leader=change.leader,
        replicas=change.target,
        size_bytes=one.size_bytes,
        in_bytes=one.in_bytes,
        out_bytes=one.out_bytes,
        requests=one.requests,
        is_whole=one.is_whole,
    )


@given(clusters(), st.floats(1.01, 2))
def test_every_plan_is_valid(
    cluster: tuple[list[PartitionLoad], dict[NodeId, str | None]], limit: float
) -> None:
    partitions, racks = cluster
    plan = plan_balance(partitions, racks, limit=limit)
    assert len({change.partition for change in plan.changes}) == len(plan.changes)
    for change in plan.changes:
        before = change.before
        assert before.is_whole
        assert change.leader == change.target[0]
        assert change.leader in racks
        assert len(set(change.target)) == len(change.target) == len(before.replicas)
        assert all(node in racks for node in change.added)
        assert len({racks.get(node) for node in change.target}) >= len(
            {racks.get(node) for node in before.replicas}
        )
    copies = [change.copied_bytes > 0 for change in plan.changes]
    assert copies == sorted(copies), "leader changes come first"


@given(clusters(), st.floats(1.01, 2))
def test_no_broker_ends_above_the_highest_load_of_before(
    cluster: tuple[list[PartitionLoad], dict[NodeId, str | None]], limit: float
) -> None:
    partitions, racks = cluster
    plan = plan_balance(partitions, racks, limit=limit)
    found = node_loads(after(partitions, plan), racks)
    for node, load in plan.loads_after.items():
        assert abs(found[node] - load) <= max(1.0, load) * 1e-6, "the effect is what was told"
    assert max(found.values()) <= max(plan.loads_before.values()) * NEARLY
    if max(plan.loads_before.values()) <= limit * plan.mean:
        assert plan.changes == ()


@given(clusters(), st.floats(1.01, 2))
def test_a_plan_ends_balanced_or_where_no_leader_change_helps(
    cluster: tuple[list[PartitionLoad], dict[NodeId, str | None]], limit: float
) -> None:
    """A leader may be moved to any replica: one that took enough of the excess is not left out."""
    partitions, racks = cluster
    plan = plan_balance(partitions, racks, limit=limit)
    if plan.is_balanced:
        return
    loads, bound = plan.loads_after, limit * plan.mean
    for one in after(partitions, plan):
        if not one.is_whole or loads.get(one.leader, 0) <= bound * NEARLY:
            continue
        moved = one.leader_load - one.follower_load
        for node in one.replicas:
            if node in racks and node != one.leader and moved > 1e-3:
                assert loads[node] + moved > bound * (1 - 1e-6)


@given(clusters(), st.floats(1.01, 2))
def test_nothing_is_copied_where_leader_changes_are_enough(
    cluster: tuple[list[PartitionLoad], dict[NodeId, str | None]], limit: float
) -> None:
    partitions, racks = cluster
    leaders_only = plan_balance(partitions, racks, limit=limit, may_copy=False)
    assert leaders_only.copied_bytes == 0
    assert all(set(one.target) == set(one.before.replicas) for one in leaders_only.changes)
    if leaders_only.is_balanced:
        assert plan_balance(partitions, racks, limit=limit) == leaders_only


def skewed(*, replicas: int) -> list[PartitionLoad]:
    """60 partitions over three brokers: those of the first are ten times as busy, and as large."""
    loads = []
    for index in range(60):
        nodes = tuple(NodeId((index + step) % 3 + 1) for step in range(replicas))
        weight = 10 if nodes[0] == 1 else 1
        loads.append(
            PartitionLoad(
                partition=TopicPartition("orders", index),
                leader=nodes[0],
                replicas=nodes,
                size_bytes=weight * 1_000_000,
                in_bytes=weight * 1_000.0,
                out_bytes=weight * 1_000.0,
            )
        )
    return loads


def highest(plan: BalancePlan) -> tuple[float, float]:
    """The highest load, in means, before and after."""
    return (
        round(max(plan.loads_before.values()) / plan.mean, 2),
        round(max(plan.loads_after.values()) / plan.mean, 2),
    )


def test_sixty_partitions_of_one_replica_with_a_skew_of_ten_to_one() -> None:
    partitions = skewed(replicas=1)
    plan = plan_balance(partitions, THREE)
    assert highest(plan) == (2.5, 1.25)
    # Twelve busy partitions cannot be on one broker: 240 units of 1,000 bytes a second are three
    # times 80, of which the limit is 104. So ten of twenty stay, and ten are copied.
    assert [change.copied_bytes for change in plan.changes] == [10_000_000] * 10
    assert all(change.before.leader == 1 for change in plan.changes)


def test_sixty_partitions_of_three_replicas_are_balanced_by_leaders_alone() -> None:
    plan = plan_balance(skewed(replicas=3), THREE)
    before, now = highest(plan)
    assert before > 1.3 >= now
    assert plan.copied_bytes == 0
    assert len(plan.changes) < 20


def test_sixty_partitions_of_two_replicas_with_a_skew_of_ten_to_one() -> None:
    plan = plan_balance(skewed(replicas=2), THREE)
    before, now = highest(plan)
    assert before > 1.3 >= now
    assert plan.copied_bytes < 0.05 * sum(2 * one.size_bytes for one in skewed(replicas=2))


def test_of_two_copies_that_help_alike_the_smaller_one_is_made() -> None:
    partitions = [
        PartitionLoad(
            partition=TopicPartition("t", index),
            leader=NodeId(node),
            replicas=(NodeId(node),),
            size_bytes=size_bytes,
            in_bytes=100,
        )
        for index, (node, size_bytes) in enumerate([(1, 5_000), (1, 1_000), (1, 9_000), (2, 10)])
    ]
    plan = plan_balance(partitions, {NodeId(1): None, NodeId(2): None})
    [change] = plan.changes
    assert (change.partition.partition, change.target, change.copied_bytes) == (1, (2,), 1_000)


def test_replicas_stay_spread_over_racks() -> None:
    racks: Racks = {NodeId(1): "a", NodeId(2): "b", NodeId(3): "b", NodeId(4): "a"}
    partitions = [
        PartitionLoad(
            partition=TopicPartition("t", index),
            leader=NodeId(1),
            replicas=(NodeId(1), NodeId(2)),
            size_bytes=1_000,
            in_bytes=100,
        )
        for index in range(8)
    ]
    plan = plan_balance(partitions, racks)
    assert plan.is_balanced
    for change in plan.changes:
        assert {racks[node] for node in change.target} == {"a", "b"}


def test_partitions_that_are_not_in_sync_stay_where_they_are() -> None:
    partitions = [
        PartitionLoad(
            partition=TopicPartition("t", index),
            leader=NodeId(1),
            replicas=(NodeId(1), NodeId(2)),
            size_bytes=1_000,
            in_bytes=100,
            is_whole=False,
        )
        for index in range(4)
    ]
    plan = plan_balance(partitions, THREE)
    assert plan.changes == ()
    assert not plan.is_balanced


class WorkTooLong(Exception):
    """More functions were called than a plan may take."""


def calls_of(work: Callable[[], BalancePlan], *, at_most: int) -> BalancePlan:
    """What the work returns, if it takes so few calls of functions, its own and others'."""
    calls = itertools.count(1)

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and next(calls) > at_most:
            raise WorkTooLong

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return work()
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("spread", ["alike", "unlike", "in racks"])
def test_four_thousand_partitions_on_new_brokers_are_planned_with_little_work(spread: str) -> None:
    """Three replicas each, all on five brokers of ten."""
    racks: Racks = {
        NodeId(node): "ab"[node % 2] if spread == "in racks" else None for node in range(1, 11)
    }
    partitions = [
        PartitionLoad(
            partition=TopicPartition("orders", index),
            leader=NodeId(index % 5 + 1),
            replicas=tuple(NodeId((index + step) % 5 + 1) for step in range(3)),
            size_bytes=1_000_000 + (index * 7919 % 1000) * 5_000 * (spread != "alike"),
            in_bytes=1_000 + (index * 104_729 % 1000) * 10 * (spread != "alike"),
        )
        for index in range(4_000)
    ]
    plan = calls_of(lambda: plan_balance(partitions, racks), at_most=2_000_000)
    assert plan.is_balanced
    # The five have twice the mean each and keep 1.3 times: a third of what they hold is copied.
    assert plan.copied_bytes < 0.36 * sum(3 * one.size_bytes for one in partitions)


def test_a_plan_says_how_far_it_is_and_can_be_given_up() -> None:
    shares: list[float] = []
    plan_balance(skewed(replicas=1), THREE, shown=shares.append)
    assert shares == sorted(shares)
    assert 0 == shares[0] < shares[-1] < 1

    def give_up(done: float) -> None:
        if done > 0.5:
            raise WorkTooLong

    with pytest.raises(WorkTooLong):
        plan_balance(skewed(replicas=1), THREE, shown=give_up)
