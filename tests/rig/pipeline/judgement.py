"""Whether what came out is what went in: pure functions of what was seen."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rig.pipeline.stream import Attempt, key_of
from rig.pipeline.witness import Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Everything but `read` is zero for a pipeline that is exactly once."""

    read: int
    duplicates: int
    missing: int
    foreign: int  # numbers that never went in, or with a wrong key
    out_of_order: int  # of a key, or of a partition's offsets
    before_commit: int  # seen before their transaction began to be committed, or aborted
    seen_otherwise: int  # by one who reads all of it at the end

    @property
    def faults(self) -> dict[str, int]:
        counts = {
            "duplicates": self.duplicates,
            "missing": self.missing,
            "foreign": self.foreign,
            "out of order": self.out_of_order,
            "seen before the commit": self.before_commit,
            "seen otherwise at the end": self.seen_otherwise,
        }
        return {what: count for what, count in counts.items() if count}


def judge(
    seen: Sequence[Seen],
    *,
    records: int,
    commits: Mapping[Attempt, int],
    at_end: Sequence[Seen],
) -> Judgement:
    times = Counter(one.number for one in seen)
    return Judgement(
        read=len(seen),
        duplicates=len(seen) - len(times),
        missing=records - sum(number in times for number in range(records)),
        foreign=sum(not 0 <= one.number < records or one.key != key_of(one.number) for one in seen),
        out_of_order=descents((one.partition, one.offset) for one in seen)
        + descents((one.key, one.number) for one in seen),
        before_commit=sum(
            one.attempt not in commits or one.at_ns <= commits[one.attempt] for one in seen
        ),
        seen_otherwise=len({place_of(one) for one in seen} ^ {place_of(one) for one in at_end}),
    )


def descents(numbered: Iterable[tuple[object, int]]) -> int:
    """How often the number of a thing was not above its last one."""
    last: dict[object, int] = {}
    found = 0
    for thing, number in numbered:
        found += number <= last.get(thing, -1)
        last[thing] = number
    return found


def place_of(one: Seen) -> tuple[int, int, int]:
    return one.partition, one.offset, one.number
