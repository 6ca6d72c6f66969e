"""What stateful queries have written is compared record by record: nothing wrong gets through."""

import pytest

from rig.stateful.truth import Record, Truth

BATCHES = ({b"a": 1, b"b": 1}, {b"a": 3}, {b"a": 4, b"b": 2})
GOOD = [Record(key, state) for batch in BATCHES for key, state in batch.items()]


@pytest.fixture
def truth() -> Truth:
    told = Truth()
    for batch in BATCHES:
        told.note_batch(batch)
    return told


def test_output_that_is_as_it_should_be_has_no_faults(truth: Truth) -> None:
    verdict = truth.judge(GOOD)
    assert verdict.is_good
    assert (verdict.expected, verdict.found) == (5, 5)


@pytest.mark.parametrize(
    ("records", "faults"),
    [
        (GOOD[:-1], (1, 0, 0)),
        ([*GOOD, GOOD[2]], (0, 1, 0)),
        ([*GOOD[:2], *GOOD[:2], *GOOD[2:]], (0, 2, 0)),
        ([*GOOD[:2], Record(b"a", 2), *GOOD[3:]], (1, 0, 1)),  # an event was lost
        ([*GOOD, Record(b"c", 1)], (0, 0, 1)),
        ([*GOOD[:2], *GOOD[3:], GOOD[2]], (0, 0, 1)),  # behind a later one
        ([], (5, 0, 0)),
    ],
)
def test_faults_are_counted(
    truth: Truth, records: list[Record], faults: tuple[int, int, int]
) -> None:
    verdict = truth.judge(records)
    assert (verdict.missing, verdict.doubled, verdict.wrong) == faults
    assert not verdict.is_good


def test_transaction_that_is_left_open_is_a_fault(truth: Truth) -> None:
    assert not truth.judge(GOOD, left_open=1).is_good
