"""The profile that is kept event by event: the order of events is of no account."""

from itertools import permutations
from typing import Any

from penstock.spark.pipelines.clickstream.profile import profile_with


def event(at_ms: int, kind: str, **fields: Any) -> dict[str, Any]:
    empty = {"amount_cents": None, "category": None, "page": None, "device": "phone"}
    return {**empty, "at_ms": at_ms, "event_id": f"e{at_ms}", "kind": kind, **fields}


EVENTS = (
    event(10, "page_view", page="/b", category="toys"),
    event(30, "page_view", page="/a", category="books"),
    event(40, "purchase", amount_cents=250, device="desk"),
    event(20, "login", device="desk"),
)


def test_a_profile_is_the_same_in_any_order_and_in_any_parts() -> None:
    whole = profile_with(None, EVENTS)
    assert whole == (
        10, 40, 4, 1, 250, {"toys": 1, "books": 1}, {"phone": 2, "desk": 2}, (30, "e30", "/a"),
    )  # fmt: skip
    for events in permutations(EVENTS):
        assert profile_with(profile_with(None, events[:1]), events[1:]) == whole


def test_the_first_of_the_alphabet_is_the_favourite_of_equals() -> None:
    profile = profile_with(None, EVENTS)
    assert (profile.favourite_category, profile.favourite_device) == ("books", "desk")
    assert profile_with(None, EVENTS[3:]).favourite_category is None
