"""What a generator makes: one record for a topic, with the time at which it happened. Pure.

A generator is `events(seed)`: endless, the same for the same seed, in the order in which a producer
would send them. Times begin at `START_MS` and go on by the story that is told, not by a clock.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z, a Thursday
# What clocks say that were never set, or not by anyone who knew: in 1970, 2000 and 2099.
WRONG_TIMES_MS = (86_400_000, 946_684_800_000, 4_070_908_800_000)


class Event(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None  # None: a tombstone
    timestamp_ms: int


def json_event(topic: str, *, key: str, fields: Mapping[str, object], timestamp_ms: int) -> Event:
    """An event whose value is a JSON object, without spaces, its fields in their order."""
    value = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    return Event(topic, key.encode(), value.encode(), timestamp_ms)
