"""People in a web shop: habits, sessions, slips of the keyboard, and some fraud that is known.

    page_view, click   where they look: the category that they like, mostly
    login              at the start of some sessions; a few fail, as passwords do
    purchase           at the end of some, with the own card, in the own country

`acts` tells with every event what stands behind it, so that a test can compare. Frauds are hours
apart for any one victim, and what honest people do never looks like one. Events are sent up to
SEND_DELAY_MS after they happened, so they come a little out of order; one in 200 is damaged, or of
a device whose clock is wrong by years. One in 200 comes after half an hour, from a phone that was
offline and dates its records when it sends them: too late for sessions and alerts.
"""

import heapq
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock.spark.pipelines.clickstream import rules
from penstock.spark.pipelines.generated import START_MS, WRONG_TIMES_MS, Event, json_event

TOPIC = "clickstream.events"
USERS = 500

CATEGORIES = ("books", "garden", "kitchen", "music", "shoes", "toys")
COUNTRIES = ("AT", "CH", "DE", "FR", "IT", "NL", "PL", "SE")
DEVICES = ("phone", "tablet", "desktop")

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
SESSION_PAUSE_MS = 90 * MINUTE_MS  # on average, between the sessions of one user
SEND_DELAY_MS = 20 * SECOND_MS
FRAUD_PAUSE_MS = 12 * MINUTE_MS  # from one to the next, over all users
DAMAGED_SHARE = 1 / 200
LATE_SHARE = 1 / 200
LATE_MS_MIN = 20 * MINUTE_MS  # more than rules.LATENESS
LATE_MS_MAX = 60 * MINUTE_MS


class Fraud(NamedTuple):
    number: int
    rule: str
    subject: str


class Act(NamedTuple):
    event: Event
    fraud: Fraud | None = None
    damaged: bool = False
    late: bool = False  # for sessions and alerts


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    user_id: str
    country: str
    card: str
    device: str
    likes: str


def events(seed: int, *, start_ms: int = START_MS) -> Iterator[Event]:
    """Endless, the same for the same seed."""
    return (act.event for act in acts(seed, start_ms=start_ms))


def acts(seed: int, *, users: int = USERS, start_ms: int = START_MS) -> Iterator[Act]:
    """The same, and what stands behind each event."""
    chance = random.Random(seed)
    people = [_user(chance, number) for number in range(users)]
    stories = [_life(random.Random(chance.random()), person, start_ms) for person in people]
    stories.append(_frauds(random.Random(chance.random()), people, start_ms))
    offline = random.Random(f"offline {seed}")
    return _sent(chance, offline, heapq.merge(*stories, key=lambda doing: doing.at_ms))


class _Doing(NamedTuple):
    """Something that happens; it has no event id yet."""

    at_ms: int
    user: User
    fields: dict[str, object]
    fraud: Fraud | None = None


def _user(chance: random.Random, number: int) -> User:
    return User(
        user_id=f"u{number:05}",
        country=chance.choice(COUNTRIES),
        card=f"card-{number:05}",
        device=chance.choice(DEVICES),
        likes=chance.choice(CATEGORIES),
    )


def _life(chance: random.Random, user: User, start_ms: int) -> Iterator[_Doing]:
    """One session after the other, for ever."""
    at_ms = start_ms + int(chance.uniform(0, SESSION_PAUSE_MS))
    while True:
        for doing in _session(chance, user, at_ms):
            at_ms = doing.at_ms
            yield doing
        # A session ends after half an hour of nothing: shorter pauses would make it one.
        at_ms += 35 * MINUTE_MS + int(chance.expovariate(1 / (SESSION_PAUSE_MS - 35 * MINUTE_MS)))


def _session(chance: random.Random, user: User, at_ms: int) -> Iterator[_Doing]:
    if chance.random() < 0.4:
        for _ in range(chance.choice((0, 0, 0, 1, 2))):  # never enough to look like an attack
            yield _Doing(at_ms, user, {"kind": "login", "ok": False})
            at_ms += int(chance.uniform(3, 15) * SECOND_MS)
        yield _Doing(at_ms, user, {"kind": "login", "ok": True})
    for _ in range(chance.randint(2, 12)):
        at_ms += SECOND_MS + min(int(chance.expovariate(1 / (40 * SECOND_MS))), 10 * MINUTE_MS)
        yield _Doing(at_ms, user, {"kind": "page_view", **_page(chance, user)})
        if chance.random() < 0.3:
            at_ms += int(chance.uniform(1, 8) * SECOND_MS)
            yield _Doing(at_ms, user, {"kind": "click", **_page(chance, user)})
    if chance.random() < 0.15:
        at_ms += int(chance.uniform(10, 90) * SECOND_MS)
        yield _Doing(at_ms, user, _purchase(chance, user))


def _page(chance: random.Random, user: User) -> dict[str, object]:
    category = user.likes if chance.random() < 0.6 else chance.choice(CATEGORIES)
    return {"page": f"/{category}/{chance.randint(1, 40)}", "category": category}


def _purchase(chance: random.Random, user: User) -> dict[str, object]:
    cents = int(chance.lognormvariate(8.2, 0.7)) + 100
    return {"kind": "purchase", **_page(chance, user), "card": user.card, "amount_cents": cents}


def _frauds(chance: random.Random, people: list[User], start_ms: int) -> Iterator[_Doing]:
    """One after the other: victims take turns, so each has hours of peace."""
    at_ms = start_ms + FRAUD_PAUSE_MS
    number = 0
    while True:
        victim, thief = people[number % len(people)], people[(number + 1) % len(people)]
        kind = (_guess, _travel, _drain)[number % 3]
        yield from kind(chance, at_ms, number, victim, thief)
        number += 1
        at_ms += FRAUD_PAUSE_MS


def _guess(
    chance: random.Random, at_ms: int, number: int, victim: User, thief: User
) -> Iterator[_Doing]:
    """Somebody tries passwords, nine of them within 45 seconds."""
    fraud = Fraud(number, rules.FAILED_LOGINS.name, victim.user_id)
    for _ in range(9):
        yield _Doing(at_ms, victim, {"kind": "login", "ok": False}, fraud)
        at_ms += int(chance.uniform(1, 5) * SECOND_MS)


def _travel(
    chance: random.Random, at_ms: int, number: int, victim: User, thief: User
) -> Iterator[_Doing]:
    """The victim buys, and minutes later somebody else does so, far away, in the victim's name."""
    fraud = Fraud(number, rules.TWO_COUNTRIES.name, victim.user_id)
    yield _Doing(at_ms, victim, _purchase(chance, victim), fraud)
    at_ms += int(chance.uniform(2, 8) * MINUTE_MS)
    yield _Doing(at_ms, victim, {**_purchase(chance, victim), "country": "US"}, fraud)


def _drain(
    chance: random.Random, at_ms: int, number: int, victim: User, thief: User
) -> Iterator[_Doing]:
    """Somebody pays with a stolen card from his own account, as often as he can."""
    fraud = Fraud(number, rules.CARD_BURST.name, victim.card)
    for _ in range(7):
        yield _Doing(at_ms, thief, {**_purchase(chance, thief), "card": victim.card}, fraud)
        at_ms += int(chance.uniform(4, 16) * SECOND_MS)


def _sent(chance: random.Random, offline: random.Random, doings: Iterator[_Doing]) -> Iterator[Act]:
    """As producers send it: with ids, late by some seconds, and now and then damaged."""
    waiting: list[tuple[int, int, Act]] = []
    for number, doing in enumerate(doings):
        while waiting and waiting[0][0] <= doing.at_ms:
            yield heapq.heappop(waiting)[2]
        sent_ms = doing.at_ms + int(chance.uniform(0, SEND_DELAY_MS))
        act = _act(chance, number, doing)
        # A fraud comes in time: it is there to be found.
        if not (act.damaged or act.fraud) and offline.random() < LATE_SHARE:
            sent_ms = doing.at_ms + int(offline.uniform(LATE_MS_MIN, LATE_MS_MAX))
            act = Act(act.event._replace(timestamp_ms=sent_ms), late=True)
        heapq.heappush(waiting, (sent_ms, number, act))


def _act(chance: random.Random, number: int, doing: _Doing) -> Act:
    user = doing.user
    fields = {
        "event_id": f"e{number:08}",
        "user_id": user.user_id,
        "at_ms": doing.at_ms,
        "device": user.device,
        "country": user.country,
        **doing.fields,
    }
    event = json_event(TOPIC, key=user.user_id, fields=fields, timestamp_ms=doing.at_ms)
    # A fraud stays whole: it is there to be found.
    if doing.fraud is None and chance.random() < DAMAGED_SHARE:
        return Act(event._replace(value=_damaged(chance, fields)), damaged=True)
    return Act(event, fraud=doing.fraud)


def _damaged(chance: random.Random, fields: dict[str, object]) -> bytes:
    """As clients of all ages and makes do it."""
    match chance.randrange(4):
        case 0:
            return json.dumps(fields).encode()[:-9]  # cut off on the way
        case 1:
            return json.dumps({**fields, "kind": "hover"}).encode()  # unknown to this pipeline
        case 2:
            return json.dumps({**fields, "at_ms": chance.choice(WRONG_TIMES_MS)}).encode()
        case _:
            return json.dumps({**fields, "user_id": None}).encode()
