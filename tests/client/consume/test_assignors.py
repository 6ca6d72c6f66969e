"""What the leader of a classic group decides: complete, disjoint, even, and moving little."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.consume.membership.assignors import (
    Shares,
    Subscriber,
    cooperative_shares,
    range_shares,
    valid_owners,
)
from penstock.model.identity import TopicPartition

TOPICS = ("a", "b", "c")
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 7) for topic in TOPICS})
PLACES = st.builds(TopicPartition, st.sampled_from((*TOPICS, "gone")), st.integers(0, 8))


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> dict[str, Subscriber]:
    some_topics = st.lists(st.sampled_from(TOPICS), min_size=1, unique=True)
    shared = draw(some_topics)
    return {
        f"m{number}": Subscriber(
            topics=tuple(shared if alike else draw(some_topics)),
            owned=tuple(draw(st.lists(PLACES, max_size=6, unique=True))),
            generation=draw(st.integers(1, 3)),
        )
        for number in range(draw(st.integers(1, 5)))
    }


def wanted(group: dict[str, Subscriber], counts: dict[str, int]) -> list[TopicPartition]:
    topics = {topic for subscriber in group.values() for topic in subscriber.topics}
    return [TopicPartition(topic, n) for topic in sorted(topics) for n in range(counts[topic])]


def given_out(shares: Shares) -> list[TopicPartition]:
    return sorted(place for share in shares.values() for place in share)


def settled(group: dict[str, Subscriber], counts: dict[str, int]) -> tuple[Shares, int]:
    """The shares when nobody has to give anything up any more, and after how many rounds."""
    for rounds in range(1, 5):
        shares = cooperative_shares(group, counts)
        if all(set(group[m].owned) <= set(share) for m, share in shares.items()) and (
            given_out(shares) == wanted(group, counts)
        ):
            return shares, rounds
        group = {
            member: Subscriber(topics=group[member].topics, owned=share, generation=9)
            for member, share in shares.items()
        }
    raise AssertionError("it never settles")


@given(group=groups(), counts=COUNTS)
def test_range_gives_out_all_and_nothing_twice(
    group: dict[str, Subscriber], counts: dict[str, int]
) -> None:
    shares = range_shares(group, counts)
    assert given_out(shares) == wanted(group, counts)
    for member, share in shares.items():
        assert {place.topic for place in share} <= set(group[member].topics)


def test_range_reads_partitions_of_the_same_number_side_by_side() -> None:
    group = {name: Subscriber(topics=("a", "b")) for name in ("x", "y")}
    shares = range_shares(group, {"a": 3, "b": 3})
    assert shares["x"] == tuple(TopicPartition(topic, n) for topic in "ab" for n in (0, 1))
    assert shares["y"] == tuple(TopicPartition(topic, 2) for topic in "ab")


def test_range_gives_static_members_the_same_under_any_id() -> None:
    before = {
        "id-9": Subscriber(topics=("a",), instance_id="one"),
        "id-1": Subscriber(topics=("a",), instance_id="two"),
    }
    after = {
        "id-0": Subscriber(topics=("a",), instance_id="two"),
        "id-5": Subscriber(topics=("a",), instance_id="one"),
    }
    counts = {"a": 3}
    assert range_shares(before, counts)["id-9"] == range_shares(after, counts)["id-5"]


def test_range_gives_dynamic_members_what_static_ones_leave() -> None:
    """As a coordinator does: a dynamic member that joins last in line moves nobody's beginning."""
    group = {
        "a-dynamic": Subscriber(topics=("a",)),
        "z": Subscriber(topics=("a",), instance_id="z-static"),
    }
    shares = range_shares(group, {"a": 3})
    assert shares["z"] == (TopicPartition("a", 0), TopicPartition("a", 1))
    assert shares["a-dynamic"] == (TopicPartition("a", 2),)


@given(group=groups(), counts=COUNTS)
def test_cooperative_takes_nothing_from_an_owner_for_another_at_once(
    group: dict[str, Subscriber], counts: dict[str, int]
) -> None:
    shares = cooperative_shares(group, counts)
    places = given_out(shares)
    assert len(places) == len(set(places))
    owners = valid_owners(group, counts)
    for member, share in shares.items():
        assert all(owners.get(place, member) == member for place in share)


@given(group=groups(), counts=COUNTS)
def test_cooperative_settles_on_all_partitions(
    group: dict[str, Subscriber], counts: dict[str, int]
) -> None:
    shares, rounds = settled(group, counts)
    assert given_out(shares) == wanted(group, counts)
    assert rounds <= 3


@given(group=groups(alike=True), counts=COUNTS)
def test_cooperative_is_even_and_keeps_what_it_can(
    group: dict[str, Subscriber], counts: dict[str, int]
) -> None:
    shares, _ = settled(group, counts)
    sizes = [len(share) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1
    owners = valid_owners(group, counts)
    for member, share in shares.items():
        had = [place for place, owner in owners.items() if owner == member]
        lost = set(had) - set(share)
        # Whoever gave something up had more than the others have now.
        assert not lost or len(share) >= min(sizes)
        if len(had) <= min(sizes):
            assert not lost


def test_of_two_owners_the_one_of_the_newer_generation_is_right() -> None:
    place = TopicPartition("a", 0)
    old = Subscriber(topics=("a",), owned=(place,), generation=1)
    new = Subscriber(topics=("a",), owned=(place,), generation=2)
    assert valid_owners({"old": old, "new": new}, {"a": 1}) == {place: "new"}
    assert valid_owners({"one": new, "two": new}, {"a": 1}) == {}


def test_cooperative_spreads_what_one_member_owns_in_a_few_steps_a_partition() -> None:
    members, partitions = 20, 1_000
    everything = tuple(TopicPartition("t", index) for index in range(partitions))
    group = {f"m{number:02}": Subscriber(topics=("t",)) for number in range(members)}
    group["m00"] = Subscriber(topics=("t",), owned=everything, generation=1)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        shares = cooperative_shares(group, {"t": partitions})
    finally:
        sys.setprofile(before)
    assert len(shares["m00"]) == partitions / members
    assert calls < 100 * partitions
