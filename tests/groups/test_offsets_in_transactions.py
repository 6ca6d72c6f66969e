"""Offsets of transactions: what counts live is what a replay of the journal finds."""

import sys
from types import FrameType

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.coordinators.group_batches import group_batch
from penstock.broker.coordinators.partition_journal import Place
from penstock.groups.records import (
    GroupRecord,
    OffsetCommitted,
    OffsetValue,
    TransactionalOffset,
    TransactionEnded,
)
from penstock.groups.replay import LatestRecords
from penstock.groups.shard import GroupShard
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.batch import BatchView
from penstock.records.compression import Codec

EPOCH = ProducerEpoch(0)
PARTITIONS = range(3)


def value(offset: int) -> OffsetValue:
    return OffsetValue(offset=offset, leader_epoch=None, metadata="", commit_timestamp_ms=1)


def plain(offset: int | None, partition: int = 0) -> OffsetCommitted:
    stored = None if offset is None else value(offset)
    return OffsetCommitted(group="g", topic="t", partition=partition, value=stored)


def within(producer: int, offset: int, partition: int = 0) -> TransactionalOffset:
    return TransactionalOffset(
        producer_id=ProducerId(producer),
        producer_epoch=EPOCH,
        group="g",
        topic="t",
        partition=partition,
        value=value(offset),
    )


def ended(producer: int, *, commit: bool = True) -> TransactionEnded:
    return TransactionEnded(
        producer_id=ProducerId(producer),
        producer_epoch=EPOCH,
        coordinator_epoch=0,
        committed=commit,
    )


RECORDS = st.lists(
    st.one_of(
        st.builds(plain, st.none() | st.integers(0, 99), st.sampled_from(PARTITIONS)),
        st.builds(within, st.integers(1, 3), st.integers(100, 199), st.sampled_from(PARTITIONS)),
        st.builds(ended, st.integers(1, 3), commit=st.booleans()),
    ),
    max_size=30,
)


def followed(records: list[GroupRecord]) -> GroupShard:
    shard = GroupShard()
    for record in records:
        shard.apply(record)
    shard.check()
    return shard


def replayed(records: list[GroupRecord]) -> GroupShard:
    latest = LatestRecords()
    for offset, record in enumerate(records):
        place = Place(base_offset=Offset(offset), leader_epoch=LeaderEpoch(0), now_ms=1)
        latest.add(BatchView(memoryview(group_batch((record,), place, codec=Codec.NONE))))
    return followed(list(latest.take()))


def offset_of(shard: GroupShard, partition: int = 0) -> int | None:
    found = shard.offsets.find("g", "t", partition)
    return None if found is None else found.offset


@given(RECORDS)
def test_a_replay_finds_what_counted_live(records: list[GroupRecord]) -> None:
    # Whatever is open at the end may yet be committed: then, too, both must agree.
    ends: list[GroupRecord] = [ended(producer) for producer in (2, 3, 1)]
    for live, again in (
        (followed(records), replayed(records)),
        (followed(records + ends), followed_on(replayed(records), ends)),
    ):
        for partition in PARTITIONS:
            assert offset_of(live, partition) == offset_of(again, partition)
            unstable = live.pending.is_pending("g", "t", partition)
            assert unstable == again.pending.is_pending("g", "t", partition)


def followed_on(shard: GroupShard, records: list[GroupRecord]) -> GroupShard:
    for record in records:
        shard.apply(record)
    shard.check()
    return shard


def test_offsets_count_from_the_marker_on() -> None:
    assert offset_of(followed([plain(1), within(7, 5)])) == 1
    assert offset_of(followed([plain(1), within(7, 5), ended(7)])) == 5
    assert offset_of(followed([plain(1), within(7, 5), ended(7, commit=False)])) == 1


def test_the_record_written_last_counts_whichever_transaction_ends_first() -> None:
    assert offset_of(followed([within(1, 5), within(2, 6), ended(2), ended(1)])) == 6
    assert offset_of(followed([within(1, 5), within(2, 6), ended(1), ended(2)])) == 6
    assert offset_of(followed([within(1, 5), plain(9), ended(1)])) == 9


def calls_of_a_commit(*, open_count: int) -> int:
    """How many calls it takes to replay one plain commit, with so many transactions open."""
    latest = LatestRecords()
    place = Place(base_offset=Offset(0), leader_epoch=LeaderEpoch(0), now_ms=1)
    for producer in range(open_count):
        batch = group_batch((within(producer, 1, partition=1),), place, codec=Codec.NONE)
        latest.add(BatchView(memoryview(batch)))
    commit = BatchView(memoryview(group_batch((plain(2),), place, codec=Codec.NONE)))
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        latest.add(commit)
    finally:
        sys.setprofile(before)
    return calls


def test_a_commit_is_replayed_at_the_same_cost_however_many_transactions_are_open() -> None:
    assert calls_of_a_commit(open_count=1) == calls_of_a_commit(open_count=1000) > 0
