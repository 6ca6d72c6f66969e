"""The profile of a user, kept event by event. Pure.

`steps.profiles` makes the same of all events at once; that a user can be forgotten takes a profile
which is state of our own. Every part is a sum, a count or an extreme: any order of events will do.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

MEMORY = """
    first_seen_at_ms long, last_seen_at_ms long, events long, purchases long, spent_cents long,
    categories map<string,long>, devices map<string,long>,
    last_page struct<at_ms:long,event_id:string,page:string>
"""
Page = tuple[int, str, str]  # when it was seen, in which event, and its address


class Profile(NamedTuple):
    """As in MEMORY: Spark keeps the fields by their order."""

    first_seen_at_ms: int
    last_seen_at_ms: int
    events: int
    purchases: int
    spent_cents: int
    categories: Mapping[str, int]
    devices: Mapping[str, int]
    last_page: Page | None

    @property
    def favourite_category(self) -> str | None:
        return _most_frequent(self.categories)

    @property
    def favourite_device(self) -> str | None:
        return _most_frequent(self.devices)


def profile_with(known: Profile | None, events: Iterable[Mapping[str, Any]]) -> Profile:
    """The profile after some more sound events; without a known one there must be at least one."""
    for event in events:
        known = _with_event(known, event)
    assert known is not None
    return known


def _with_event(known: Profile | None, event: Mapping[str, Any]) -> Profile:
    at_ms = event["at_ms"]
    if known is None:
        known = Profile(at_ms, at_ms, 0, 0, 0, {}, {}, None)
    is_purchase = event["kind"] == "purchase"
    return Profile(
        first_seen_at_ms=min(known.first_seen_at_ms, at_ms),
        last_seen_at_ms=max(known.last_seen_at_ms, at_ms),
        events=known.events + 1,
        purchases=known.purchases + is_purchase,
        spent_cents=known.spent_cents + (event["amount_cents"] if is_purchase else 0),
        categories=_counted(known.categories, event["category"]),
        devices=_counted(known.devices, event["device"]),
        last_page=_later(known.last_page, event),
    )


def _counted(counts: Mapping[str, int], word: str | None) -> Mapping[str, int]:
    return counts if word is None else {**counts, word: counts.get(word, 0) + 1}


def _later(known: Page | None, event: Mapping[str, Any]) -> Page | None:
    if event["page"] is None:
        return known
    page = (event["at_ms"], event["event_id"], event["page"])
    return page if known is None else max(known, page)


def _most_frequent(counts: Mapping[str, int]) -> str | None:
    """Of several that are as frequent, the first of the alphabet."""
    return min(counts, key=lambda word: (-counts[word], word), default=None)
