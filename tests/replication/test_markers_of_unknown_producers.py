"""A marker that no coordinator can have sent is refused where no producer is known either."""

import pytest

from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.replication.marker import Marker, refuse_marker


def refusal(producer_id: int, epoch: int, *, coordinator_epoch: int = 0) -> ErrorCode | None:
    marker = Marker(
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(epoch),
        coordinator_epoch=coordinator_epoch,
        committed=False,
    )
    refused = refuse_marker(marker, None)
    return None if refused is None else refused.code


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (-5, 0), (-(2**63), 0), (7, -1)])
def test_marker_of_no_producer_is_refused(producer_id: int, epoch: int) -> None:
    assert refusal(producer_id, epoch) is ErrorCode.INVALID_REQUEST


def test_marker_of_a_coordinator_before_the_first_is_refused() -> None:
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert refusal(7, 0, coordinator_epoch=-2) is fenced
    assert refusal(7, 0, coordinator_epoch=-1) is None  # as whoever ends what hangs may send it


def test_marker_of_a_producer_that_is_not_known_any_more_is_taken() -> None:
    assert refusal(0, 0) is None
