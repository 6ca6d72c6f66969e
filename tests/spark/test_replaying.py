"""Each letter is replayed once, however choosy replays are, wherever they are cut off, and though
the group's offset expires.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.model.offset import Offset
from penstock.spark.dead_letter_headers import (
    ATTEMPT,
    COUNTED,
    REPLAYED_AT,
    Letter,
    letter_of,
    parse_ranges,
    ranges_text,
    receipt_headers,
    replayed_headers,
)
from penstock.spark.dead_letter_replay import PartitionReplay, merged

KINDS = ("a", "b", "c")


@dataclass
class Partition:
    """A dead-letter partition: letters by kind, receipts, gaps; and what was committed."""

    log: list[str | tuple[range, ...] | None]
    committed: int = 0
    replayed: list[int] = field(default_factory=list)

    def waiting(self, kinds: str) -> list[int]:
        return [
            offset
            for offset, one in enumerate(self.log)
            if isinstance(one, str) and one in kinds and offset not in self.replayed
        ]

    def replay(self, kinds: str, *, at_once: int, cut_off_after: int | None) -> None:
        """One run of a replayer: transactions of so many letters, until it ends or is killed."""
        end = len(self.log)
        receipts = [
            one
            for entry in self.log[self.committed : end]
            if isinstance(entry, tuple)
            for one in entry
        ]
        state = PartitionReplay(done_until=Offset(self.committed), receipts=tuple(receipts))
        inside: list[int] = []
        for offset in range(self.committed, end):
            kind = self.log[offset]
            if not isinstance(kind, str) or state.is_done(offset):
                continue
            if kind in kinds:
                if cut_off_after is not None and len(inside) == cut_off_after:
                    return
                state.replayed(offset)
                inside.append(offset)
            else:
                state.left(offset)
            if len(inside) == at_once:
                self._commit(state, inside)
                inside = []
        state.reached(Offset(end))
        self._commit(state, inside)

    def _commit(self, state: PartitionReplay, inside: list[int]) -> None:
        settled = state.settle()
        if settled.receipt:
            self.log.append(parse_ranges(ranges_text(settled.receipt)))
        self.log.append(None)  # the marker of the transaction
        self.replayed += inside
        self.committed = settled.offset


runs = st.tuples(
    st.sets(st.sampled_from(KINDS), min_size=1).map(lambda kinds: "".join(sorted(kinds))),
    st.integers(1, 4),
    st.none() | st.integers(0, 3),
    st.booleans(),
)
logs = st.lists(st.sampled_from([*KINDS, None]), max_size=25)


# How long it takes to think of logs says nothing about them: the machine may be busy.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(log=logs, replays=st.lists(runs, max_size=6), more=logs)
def test_each_letter_is_replayed_once(
    log: list[str | None], replays: list[tuple[str, int, int | None, bool]], more: list[str | None]
) -> None:
    partition = Partition(log=list(log))
    for kinds, at_once, cut_off_after, offset_expires in replays:
        if offset_expires:
            partition.committed = 0
        before = set(partition.replayed)
        partition.replay(kinds, at_once=at_once, cut_off_after=cut_off_after)
        chosen = set(partition.replayed) - before
        assert all(str(partition.log[offset]) in kinds for offset in chosen)
        if cut_off_after is None:
            assert not partition.waiting(kinds)
    partition.log += more
    partition.replay("abc", at_once=3, cut_off_after=None)
    assert not partition.waiting("abc")
    assert len(partition.replayed) == len(set(partition.replayed))


@given(offsets=st.sets(st.integers(0, 60)))
def test_ranges_are_read_as_they_were_written(offsets: set[int]) -> None:
    ranges = merged(range(offset, offset + 1) for offset in offsets)
    assert {offset for one in parse_ranges(ranges_text(ranges)) for offset in one} == offsets
    assert letter_of(receipt_headers(ranges)) == ranges


@pytest.mark.parametrize("text", ["", "-", "x", "7-4", "1-2-3", "-3", "٣"])
def test_what_is_no_range_calls_no_letter_done(text: str) -> None:
    assert parse_ranges(text) == ()


def test_a_letter_tells_where_it_came_from() -> None:
    headers = (
        ("trace", b"7"),
        ("penstock.dlq.topic", b"orders"),
        ("penstock.dlq.partition", b"3"),
        ("penstock.dlq.offset", b"41"),
        ("penstock.dlq.timestamp", b"1000"),
        ("penstock.dlq.reason", b"field id is missing"),
        ("penstock.dlq.attempt", b"2"),
    )
    assert letter_of(headers) == Letter(
        topic="orders",
        partition=3,
        offset=Offset(41),
        timestamp_ms=1_000,
        reason="field id is missing",
        attempt=2,
    )
    kept = replayed_headers((*headers, (COUNTED, b"true"), (REPLAYED_AT, b"4")), now_ms=5_000)
    assert kept == (("trace", b"7"), (ATTEMPT, b"2"), (COUNTED, b"true"), (REPLAYED_AT, b"5000"))


def test_what_others_write_is_a_letter_that_tells_nothing() -> None:
    nothing = Letter(
        topic=None, partition=None, offset=None, timestamp_ms=None, reason=None, attempt=None
    )
    assert letter_of(()) == nothing
    assert letter_of((("penstock.dlq.offset", b"-1"), ("penstock.dlq.attempt", b""))) == nothing
    assert letter_of((("penstock.dlq.timestamp", b"%d" % 2**63),)) == nothing
