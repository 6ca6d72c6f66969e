"""What people do in a web shop, and the profile of each of them after each batch."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from penstock.spark.pipelines.clickstream.generate import TOPIC, Act, acts
from penstock.spark.pipelines.generated import Event
from rig.stateful.story import dealt
from rig.stateful.truth import Truth

HANDS = 8
FIELDS = ("user_id", "first_seen_at_ms", "last_seen_at_ms", "events", "purchases", "spent_cents",
          "favourite_category", "favourite_device", "last_page")  # fmt: skip


class ProfilesStory:
    topics: Mapping[str, int] = {TOPIC: 2}

    def __init__(self, *, seed: int, users: int, events_per_batch: int) -> None:
        self._known = Profiles()
        chance = random.Random(f"profiles {seed}")
        self._batches = dealt(
            acts(seed, users=users), size=events_per_batch, hands=HANDS, chance=chance
        )

    @property
    def truth(self) -> Truth:
        return self._known.truth

    def batch(self) -> list[Event]:
        some = next(self._batches)
        self._known.take(some)
        return [act.event for act in some]

    def state_of(self, value: bytes) -> Hashable:
        return profile_of(value)


def profile_of(value: bytes) -> Hashable:
    told = json.loads(value)
    return tuple(told.get(name) for name in FIELDS)


class Profiles:
    def __init__(self) -> None:
        self.truth = Truth()
        self._users: defaultdict[str, _Profile] = defaultdict(_Profile)

    def take(self, batch: Iterable[Act]) -> None:
        changed = set()
        for act in batch:
            if not act.damaged:
                fields = json.loads(act.event.value or b"")
                self._users[fields["user_id"]].take(fields)
                changed.add(fields["user_id"])
        self.truth.note_batch({user.encode(): self._users[user].state(user) for user in changed})


class _Profile:
    def __init__(self) -> None:
        self.first_ms = self.last_ms = 0
        self.events = self.purchases = self.spent_cents = 0
        self.categories: Counter[str] = Counter()
        self.devices: Counter[str] = Counter()
        self.last_page: tuple[int, str, str | None] = (0, "", None)

    def take(self, fields: dict[str, Any]) -> None:
        at_ms = fields["at_ms"]
        self.first_ms = min(self.first_ms or at_ms, at_ms)
        self.last_ms = max(self.last_ms, at_ms)
        self.events += 1
        self.devices[fields["device"]] += 1
        if fields["kind"] == "purchase":
            self.purchases += 1
            self.spent_cents += fields["amount_cents"]
        if "category" in fields:
            self.categories[fields["category"]] += 1
        if "page" in fields:
            seen = (at_ms, fields["event_id"], fields["page"])
            self.last_page = max(self.last_page, seen)

    def state(self, user_id: str) -> Hashable:
        return (
            user_id,
            self.first_ms,
            self.last_ms,
            self.events,
            self.purchases,
            self.spent_cents,
            _most(self.categories),
            _most(self.devices),
            self.last_page[2],
        )


def _most(counts: Counter[str]) -> str | None:
    """Of several that came as often, the first of the alphabet."""
    return min(counts, key=lambda one: (-counts[one], one), default=None)
