"""Both assignors: complete, disjoint and fair; `uniform` even and sticky; `range` consecutive."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from penstock.groups.assignor.range import assign_ranges
from penstock.groups.assignor.spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
    TopicIdPartition,
    check,
)
from penstock.groups.assignor.uniform import assign_uniformly
from penstock.model.identity import TopicId


def topic(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def member(name: str, *topics: int, instance: str | None = None) -> MemberSpec:
    return MemberSpec(
        member_id=name,
        instance_id=instance,
        topics=frozenset(map(topic, topics)),
        owned=frozenset(),
    )


def group(counts: dict[int, int], *members: MemberSpec) -> GroupSpec:
    return GroupSpec(
        members=members, partitions={topic(number): count for number, count in counts.items()}
    )


def numbers(assignment: Assignment, name: str) -> list[tuple[int, int]]:
    return sorted((int.from_bytes(p.topic_id, "big"), p.partition) for p in assignment[name])


@st.composite
def specs(draw: DrawFn, *, alike: bool = False) -> GroupSpec:
    """Groups with arbitrary subscriptions, some to topics that do not exist, and arbitrary owned
    partitions, some of them not subscribed any more or gone.
    """
    counts = {topic(n): draw(st.integers(1, 9)) for n in range(draw(st.integers(0, 3)))}
    names = [f"m{n}" for n in range(draw(st.integers(1, 6)))]
    owners = draw(st.lists(st.sampled_from([None, *names]), min_size=40, max_size=40))
    subscriptions = st.sets(st.integers(0, 4)).map(lambda ns: frozenset(map(topic, ns)))
    all_topics = draw(subscriptions)
    members = [
        MemberSpec(
            member_id=name,
            instance_id=draw(st.none() | st.just(f"i-{name}")),
            topics=all_topics if alike else draw(subscriptions),
            owned=frozenset(
                TopicIdPartition(topic(place // 10), place % 10)
                for place, owner in enumerate(owners)
                if owner == name
            ),
        )
        for name in names
    ]
    return GroupSpec(members=tuple(members), partitions=counts)


def again(spec: GroupSpec, assignment: Assignment) -> GroupSpec:
    """The same group with what was assigned."""
    return replace(
        spec, members=tuple(replace(m, owned=assignment[m.member_id]) for m in spec.members)
    )


@given(specs())
def test_both_assignors_are_complete_disjoint_and_keep_to_subscriptions(spec: GroupSpec) -> None:
    check(spec, assign_uniformly(spec))
    check(spec, assign_ranges(spec))


@given(specs(), st.randoms(use_true_random=False))
def test_the_order_of_members_makes_no_difference(spec: GroupSpec, random: Random) -> None:
    shuffled = list(spec.members)
    random.shuffle(shuffled)
    other = replace(spec, members=tuple(shuffled))
    assert assign_uniformly(other) == assign_uniformly(spec)
    assert assign_ranges(other) == assign_ranges(spec)


@given(specs(alike=True))
def test_uniform_gives_members_of_one_subscription_counts_that_differ_by_one(
    spec: GroupSpec,
) -> None:
    counts = [len(share) for share in assign_uniformly(spec).values()]
    assert max(counts) - min(counts) <= 1


@given(specs())
def test_uniform_leaves_no_move_that_would_even_out_the_counts(spec: GroupSpec) -> None:
    assignment = assign_uniformly(spec)
    for giver in spec.members:
        for taker in spec.members:
            gap = len(assignment[giver.member_id]) - len(assignment[taker.member_id])
            movable = [p for p in assignment[giver.member_id] if p.topic_id in taker.topics]
            assert gap < 2 or not movable


@given(specs())
def test_uniform_moves_nothing_in_a_group_that_it_has_assigned(spec: GroupSpec) -> None:
    assignment = assign_uniformly(spec)
    assert assign_uniformly(again(spec, assignment)) == assignment


@given(specs(alike=True))
def test_uniform_moves_no_more_than_evenness_takes(spec: GroupSpec) -> None:
    assignment = assign_uniformly(spec)
    valid = {
        m.member_id: {
            p
            for p in m.owned
            if p.topic_id in m.topics and p.partition < spec.partitions.get(p.topic_id, 0)
        }
        for m in spec.members
    }
    counts = {name: len(share) for name, share in assignment.items()}
    for name, owned in valid.items():
        kept = len(owned & assignment[name])
        assert kept == min(len(owned), counts[name])  # gains nothing while it loses something


@given(specs(alike=True))
def test_uniform_gives_a_newcomer_its_share_and_moves_nothing_else(spec: GroupSpec) -> None:
    before = assign_uniformly(spec)
    spec = again(spec, before)
    newcomer = replace(spec.members[0], member_id="new", instance_id=None, owned=frozenset())
    after = assign_uniformly(replace(spec, members=(*spec.members, newcomer)))
    for name, share in before.items():
        assert after[name] <= share


def test_range_cuts_every_topic_into_consecutive_stretches() -> None:
    spec = group({1: 7, 2: 3}, member("b", 1, 2), member("a", 1, 2), member("c", 1))
    assignment = assign_ranges(spec)
    assert numbers(assignment, "a") == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
    assert numbers(assignment, "b") == [(1, 3), (1, 4), (2, 2)]
    assert numbers(assignment, "c") == [(1, 5), (1, 6)]


def test_range_gives_a_static_member_its_place_back_under_another_id() -> None:
    first = group({1: 4}, member("zz", 1, instance="i-1"), member("b", 1))
    second = group({1: 4}, member("aa", 1, instance="i-1"), member("b", 1))
    assert assign_ranges(first)["zz"] == assign_ranges(second)["aa"]
    assert numbers(assign_ranges(first), "zz") == [(1, 0), (1, 1)]


def test_more_members_than_partitions_leaves_some_idle() -> None:
    spec = group({1: 2}, *(member(f"m{n}", 1) for n in range(5)))
    for assignment in (assign_uniformly(spec), assign_ranges(spec)):
        assert sorted(len(share) for share in assignment.values()) == [0, 0, 0, 1, 1]


def test_a_group_without_members_has_an_empty_assignment() -> None:
    assert assign_uniformly(group({1: 3})) == {}
    assert assign_ranges(group({1: 3})) == {}
