"""The check that a sink has to pass sees each fault that it is there for."""

from rig.numbered_rows import KEYS, Row, judge, key_of

COUNT = 3 * KEYS
RIGHT = [Row(number % KEYS % 2, number, key_of(number), number) for number in range(COUNT)]


def test_rows_that_are_there_once_in_order_have_no_fault() -> None:
    assert not judge(RIGHT, count=COUNT).faults


def test_a_row_that_is_there_twice_is_a_duplicate() -> None:
    again = RIGHT[-1]._replace(offset=COUNT)
    assert judge([*RIGHT, again], count=COUNT).faults == {"duplicates": 1}


def test_a_row_that_is_not_there_is_missing() -> None:
    assert judge(RIGHT[1:], count=COUNT).faults == {"missing": 1}


def test_a_row_that_never_went_in_is_foreign() -> None:
    stranger = Row(0, COUNT, key_of(COUNT), COUNT)
    assert judge([*RIGHT, stranger], count=COUNT).faults == {"foreign": 1}


def test_rows_of_a_key_that_changed_places_are_out_of_order() -> None:
    first, later = RIGHT[0], RIGHT[KEYS]
    swapped = [first._replace(offset=later.offset), later._replace(offset=first.offset)]
    rest = [row for row in RIGHT if row not in (first, later)]
    assert judge([*swapped, *rest], count=COUNT).faults == {"out of order": 1}


def test_a_transaction_that_was_left_open_is_a_fault() -> None:
    judged = judge(RIGHT, count=COUNT, open_transactions=["a.b.0.0.0.1"])
    assert judged.faults == {"open transactions": ("a.b.0.0.0.1",)}
