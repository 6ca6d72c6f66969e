"""What must come out of a clickstream, told by a plain loop over what went in."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from penstock.spark.pipelines.clickstream.generate import Act, Fraud
from penstock.spark.pipelines.clickstream.rules import DISORDER_MS, RULES

SESSION_GAP_MS = 30 * 60_000


def sound_events(acts: Iterable[Act]) -> list[dict[str, Any]]:
    return [json.loads(act.event.value or b"") for act in acts if not act.damaged]


def dead_letters(acts: Iterable[Act]) -> list[bytes]:
    return sorted(act.event.value or b"" for act in acts if act.damaged or act.late)


def closed_sessions(acts: Sequence[Act]) -> set[tuple[str, int, int, int, int]]:
    """User, first and last moment, events, revenue of each visit that is known to have ended."""
    by_user: dict[str, list[dict[str, Any]]] = defaultdict(list)
    events = sound_events(act for act in acts if not act.late)
    for event in events:
        by_user[event["user_id"]].append(event)
    sure_until_ms = max(event["at_ms"] for event in events) - DISORDER_MS
    return {
        (
            user,
            visit[0]["at_ms"],
            visit[-1]["at_ms"],
            len(visit),
            sum(event.get("amount_cents", 0) for event in visit),
        )
        for user, events in by_user.items()
        for visit in visits(sorted(events, key=lambda event: event["at_ms"]))
        if visit[-1]["at_ms"] + SESSION_GAP_MS <= sure_until_ms
    }


def visits(events: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    visit: list[dict[str, Any]] = []
    for event in events:
        if visit and event["at_ms"] - visit[-1]["at_ms"] > SESSION_GAP_MS:
            yield visit
            visit = []
        visit.append(event)
    yield visit


def known_profiles(acts: Iterable[Act]) -> dict[str, tuple[int, int, int]]:
    """Events, last moment and money spent of each user."""
    found: dict[str, tuple[int, int, int]] = {}
    for event in sound_events(acts):
        count, last_ms, spent = found.get(event["user_id"], (0, 0, 0))
        found[event["user_id"]] = (
            count + 1,
            max(last_ms, event["at_ms"]),
            spent + event.get("amount_cents", 0),
        )
    return found


def planted_frauds(acts: Iterable[Act]) -> Counter[tuple[str, str]]:
    """How often each rule was broken by each subject, as the generator planted it."""
    seen: Counter[Fraud] = Counter(act.fraud for act in acts if act.fraud is not None)
    return Counter(
        (fraud.rule, fraud.subject)
        for fraud, count in seen.items()
        # The end of the story may have cut one short.
        if count >= RULES[fraud.rule].least
    )
