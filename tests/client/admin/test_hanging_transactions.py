"""What hangs is told from what is open, ends meanwhile, or is somebody's to decide."""

import pytest

from penstock.client.admin.hanging_transactions import OpenTransaction, Suspect, still_open
from penstock.client.admin.transaction_listing import TransactionDescription
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import Offset

HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def opened(
    producer_id: int = 7, *, start_offset: int = 3, at: TopicPartition = HERE
) -> OpenTransaction:
    return OpenTransaction(
        partition=at,
        start_offset=Offset(start_offset),
        producer_id=producer_id,
        epoch=0,
        coordinator_epoch=None,
        last_write_ms=1_000,
    )


def known(
    *partitions: TopicPartition, producer_id: int = 7, state: str = "Ongoing"
) -> TransactionDescription:
    return TransactionDescription(
        transactional_id="billing",
        state=state,
        producer_id=producer_id,
        epoch=0,
        coordinator=NodeId(1),
        start_ms=500,
        timeout_ms=60_000,
        partitions=partitions,
    )


def test_what_no_coordinator_knows_hangs() -> None:
    [suspect] = still_open([opened()], [opened()], {8: known(HERE, producer_id=8)})
    assert suspect.hangs
    assert suspect.open_since_ms() == 1_000


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "PrepareAbort"])
def test_what_its_coordinator_has_still_to_tell_does_not_hang(state: str) -> None:
    [suspect] = still_open([opened()], [opened()], {7: known(HERE, THERE, state=state)})
    assert not suspect.hangs
    assert suspect.open_since_ms() == 500


@pytest.mark.parametrize("partitions", [(), (THERE,)])
def test_a_partition_that_its_coordinator_does_not_have_hangs(
    partitions: tuple[TopicPartition, ...],
) -> None:
    [suspect] = still_open([opened()], [opened()], {7: known(*partitions)})
    assert suspect.hangs


@pytest.mark.parametrize(
    "after", [[], [opened(start_offset=9)], [opened(8)], [opened(at=THERE)]], ids=repr
)
def test_what_ended_while_the_coordinators_were_asked_is_no_suspect(
    after: list[OpenTransaction],
) -> None:
    assert still_open([opened()], after, {}) == []


def test_of_many_each_has_its_own_coordinator_s_word() -> None:
    before = [opened(7), opened(8), opened(7, at=THERE)]
    found = still_open(before, before, {7: known(HERE)})
    assert found == [
        Suspect(open=before[0], known=known(HERE)),
        Suspect(open=before[1], known=None),
        Suspect(open=before[2], known=known(HERE)),
    ]
    assert [one.hangs for one in found] == [False, True, True]
