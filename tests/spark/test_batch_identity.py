"""Where a batch stands to those that were written: one rule for the sink and the tables."""

import pytest

from penstock.spark.batch_identity import BatchPlace, place_of


@pytest.mark.parametrize(
    ("batch_id", "last_batch_id", "taken_over", "place"),
    [
        (0, None, False, BatchPlace.FIRST),
        (7, None, False, BatchPlace.FIRST),
        (7, 7, False, BatchPlace.REPEATED),
        (8, 7, False, BatchPlace.NEXT),
        (9, 7, False, BatchPlace.LATER),
        (6, 7, False, BatchPlace.OLDER),
        (8, 7, True, BatchPlace.SUPERSEDED),
        (0, None, True, BatchPlace.SUPERSEDED),
    ],
)
def test_a_batch_has_one_place(
    batch_id: int, last_batch_id: int | None, taken_over: bool, place: BatchPlace
) -> None:
    assert place_of(batch_id, last_batch_id=last_batch_id, taken_over=taken_over) is place
