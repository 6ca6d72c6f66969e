"""What the bench of tables takes for exactly once: each record once, and with its value."""

import pytest

from rig.table_contents import Found, Place, compared, digest_of

RECORDS: dict[Place, bytes] = {(0, 0): b"a", (0, 1): b"b", (1, 0): b"c"}
EXPECTED = {place: digest_of(value) for place, value in RECORDS.items()}
Row = tuple[Place, bytes | None]


def test_the_records_themselves_have_no_fault() -> None:
    found = compared(RECORDS.items(), EXPECTED)
    assert found == Found(rows=3, duplicates=0, missing=0, wrong=0)
    assert found.faults == 0


@pytest.mark.parametrize(
    ("changed", "faults"),
    [
        pytest.param({(0, 1): b"c"}, (0, 0, 1), id="the value of another record"),
        pytest.param({(0, 1): None}, (0, 0, 1), id="no value"),
        pytest.param({(7, 7): b"a"}, (0, 0, 1), id="a row of no record"),
    ],
)
def test_values_count(changed: dict[Place, bytes | None], faults: tuple[int, int, int]) -> None:
    found = compared((RECORDS | changed).items(), EXPECTED)
    assert (found.duplicates, found.missing, found.wrong) == faults


def test_a_row_that_is_there_twice_and_one_that_is_not_are_told_apart() -> None:
    rows: list[Row] = [((0, 0), b"a"), ((0, 0), b"a"), ((1, 0), b"c")]
    assert compared(rows, EXPECTED) == Found(rows=3, duplicates=1, missing=1, wrong=0)
