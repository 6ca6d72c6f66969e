"""Where a group reads on after a reset, by every way to say it."""

import pytest

from penstock.client.admin.group_reset import (
    Aim,
    LogBounds,
    ShiftBy,
    To,
    ToAgo,
    ToEach,
    ToOffset,
    ToTime,
    new_offset,
)
from penstock.client.network.errors import Refused
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset

PLACE = TopicPartition("t", 0)
BOUNDS = LogBounds(start_offset=Offset(10), end_offset=Offset(100))


def reset(aim: Aim, *, current: int | None = 50, at_time: int | None = 70) -> int:
    return new_offset(
        aim,
        PLACE,
        current=None if current is None else Offset(current),
        bounds=BOUNDS,
        at_time=None if at_time is None else Offset(at_time),
    )


@pytest.mark.parametrize(
    ("aim", "offset"),
    [
        (To.EARLIEST, 10),
        (To.LATEST, 100),
        (To.CURRENT, 50),
        (ToOffset(60), 60),
        (ToOffset(0), 10),
        (ToOffset(500), 100),
        (ToTime(1), 70),
        (ToAgo(1), 70),
        (ShiftBy(5), 55),
        (ShiftBy(-5), 45),
        (ShiftBy(-500), 10),
        (ShiftBy(500), 100),
        (ToEach({PLACE: 33}), 33),
    ],
    ids=repr,
)
def test_new_offset_is_where_the_aim_says_and_within_the_log(aim: Aim, offset: int) -> None:
    assert reset(aim) == offset


def test_time_after_the_last_record_is_the_end() -> None:
    assert reset(ToTime(1), at_time=None) == 100


def test_current_offset_of_a_group_that_has_none_is_the_end() -> None:
    assert reset(To.CURRENT, current=None) == 100


def test_nothing_is_shifted_from_nowhere() -> None:
    with pytest.raises(Refused, match="t-0: nothing is committed"):
        reset(ShiftBy(1), current=None)
