"""What a table has of a topic, by places and by values. Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NewType

Place = tuple[int, int]  # partition and offset
Digest = NewType("Digest", bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    rows: int
    duplicates: int
    missing: int
    wrong: int  # another value than the record's, or no record's at all

    @property
    def faults(self) -> int:
        return self.duplicates + self.missing + self.wrong


def digest_of(value: bytes) -> Digest:
    return Digest(hashlib.blake2b(value, digest_size=16).digest())


def compared(rows: Iterable[tuple[Place, bytes | None]], expected: Mapping[Place, Digest]) -> Found:
    """The rows of a table beside the records of its topic."""
    seen: set[Place] = set()
    count = wrong = 0
    for place, value in rows:
        count += 1
        if value is None or expected.get(place) != digest_of(value):
            wrong += 1
        seen.add(place)
    return Found(
        rows=count,
        duplicates=count - len(seen),
        missing=sum(1 for place in expected if place not in seen),
        wrong=wrong,
    )
