"""What must stand in the output of a query that writes the new state of each key. Pure.

A batch writes one record for each key that something happened to. So the records of a key are known
one by one: its state after each batch that had something for it. No two of them are the same, since
every state counts the events of its key.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple


class Record(NamedTuple):
    """Of an output; those of one key come in the order of the log."""

    key: bytes
    state: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    expected: int
    found: int
    missing: int
    doubled: int
    wrong: int  # no state that the key ever had, or behind a later one
    left_open: int = 0  # transactions

    @property
    def is_good(self) -> bool:
        return not (self.missing or self.doubled or self.wrong or self.left_open)

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(
            expected=self.expected + other.expected,
            found=self.found + other.found,
            missing=self.missing + other.missing,
            doubled=self.doubled + other.doubled,
            wrong=self.wrong + other.wrong,
            left_open=self.left_open + other.left_open,
        )


def compare(expected: Iterable[Hashable], found: Iterable[Hashable]) -> Verdict:
    """Of what has no order."""
    wanted, seen = Counter(expected), Counter(found)
    more = seen - wanted
    doubled = sum(count for one, count in more.items() if one in wanted)
    return Verdict(
        expected=wanted.total(),
        found=seen.total(),
        missing=(wanted - seen).total(),
        doubled=doubled,
        wrong=more.total() - doubled,
    )


def compare_by_key(expected: Iterable[Record], found: Iterable[Record]) -> Verdict:
    """The records of each key have an order, and may say the same again later."""
    wanted, seen = list(expected), list(found)
    states_of = (_states_by_key(wanted), _states_by_key(seen))
    disordered = sum(
        sorted(map(hash, states)) == sorted(map(hash, states_of[1].get(key, [])))
        and states != states_of[1].get(key, [])
        for key, states in states_of[0].items()
    )
    verdict = compare(wanted, seen)
    return replace(verdict, wrong=verdict.wrong + disordered)


def _states_by_key(records: Iterable[Record]) -> dict[bytes, list[Hashable]]:
    found: dict[bytes, list[Hashable]] = defaultdict(list)
    for key, state in records:
        found[key].append(state)
    return found


class Truth:
    """States are kept as hashes: there are millions of them."""

    def __init__(self) -> None:
        self._states: dict[bytes, list[int]] = {}

    def note_batch(self, states: Mapping[bytes, Hashable]) -> None:
        """The new states of all keys that a batch has something for."""
        for key, state in states.items():
            before = self._states.setdefault(key, [])
            after = hash(state)
            assert after not in before, f"{key!r} had this state before: {state}"
            before.append(after)

    def judge(self, records: Iterable[Record], *, left_open: int = 0) -> Verdict:
        seen = dict.fromkeys(self._states, 0)  # a bit for each state
        found = doubled = wrong = 0
        for key, state in records:
            found += 1
            states, bits = self._states.get(key, []), seen.get(key, 0)
            state_hash = hash(state)
            if state_hash not in states:
                wrong += 1
                continue
            bit = 1 << states.index(state_hash)
            if bits & bit:
                doubled += 1
            elif bits > bit:
                wrong += 1
            seen[key] = bits | bit
        expected = sum(map(len, self._states.values()))
        return Verdict(
            expected=expected,
            found=found,
            missing=expected - sum(bits.bit_count() for bits in seen.values()),
            doubled=doubled,
            wrong=wrong,
            left_open=left_open,
        )
