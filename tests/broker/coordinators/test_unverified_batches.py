"""What the coordinator says of a transaction reaches its producer in words that it knows."""

import pytest

from penstock.broker.coordinators.verification import refusal_for_producer
from penstock.model.error import ErrorCode


@pytest.mark.parametrize("version", [12, 13])
def test_generation_two_is_told_of_markers_on_their_way(version: int) -> None:
    assert refusal_for_producer(ErrorCode.CONCURRENT_TRANSACTIONS, version=version).code is (
        ErrorCode.CONCURRENT_TRANSACTIONS
    )


@pytest.mark.parametrize("version", [3, 11])
def test_generation_one_is_told_what_it_tries_again_after(version: int) -> None:
    assert refusal_for_producer(ErrorCode.CONCURRENT_TRANSACTIONS, version=version).code is (
        ErrorCode.NOT_ENOUGH_REPLICAS
    )


@pytest.mark.parametrize("version", [3, 13])
def test_trouble_of_the_coordinator_is_told_as_one_to_try_again_after(version: int) -> None:
    for code in (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,  # it is on another node, which does not answer
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # which knows less than the leader of the partition
        ErrorCode.OPERATION_NOT_ATTEMPTED,  # because of another partition that it does not know
    ):
        assert refusal_for_producer(code, version=version).code is ErrorCode.NOT_ENOUGH_REPLICAS
