"""An acked record is at its offset in the end: that a log has become shorter is no excuse."""

import pytest

from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.model.identity import TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.layout import TimestampType
from penstock.sim.cluster.judgement import judge_found, judge_kept
from penstock.sim.errors import Violation
from penstock.sim.reading import FinalLog

PLACE = TopicPartition("orders", 0)
ACKED = {0: b"a", 1: b"b", 2: b"c"}


def log_of(*values: bytes, broken_at: int | None = None) -> FinalLog:
    records = [
        ConsumedRecord(
            topic=PLACE.topic, partition=PLACE.partition, offset=Offset(offset), timestamp_ms=0,
            timestamp_type=TimestampType.CREATE_TIME, key=None, value=value, headers=(),
            leader_epoch=LeaderEpoch(0),
        )
        for offset, value in enumerate(values)
    ]  # fmt: skip
    return FinalLog(
        partition=PLACE,
        start_offset=0,
        end_offset=len(values) if broken_at is None else len(ACKED),
        compacted=False,
        records=records,
        broken_at=broken_at,
    )


def test_what_nobody_was_told_of_may_be_there() -> None:
    judge_kept(log_of(b"a", b"b", b"c", b"d"), ACKED)


def test_another_record_at_the_offset_is_found() -> None:
    with pytest.raises(Violation, match="lost records: orders-0 has b'x' at 1, where b'b' was"):
        judge_kept(log_of(b"a", b"x", b"c"), ACKED)


def test_a_lost_tail_is_found() -> None:
    with pytest.raises(Violation, match="lost records: orders-0 has None at 2, where b'c' was"):
        judge_kept(log_of(b"a", b"b"), ACKED)


def test_behind_damage_records_are_judged_on_other_disks() -> None:
    judge_kept(log_of(b"a", broken_at=1), ACKED)
    with pytest.raises(Violation, match="lost records: orders-0 has None at 0"):
        judge_kept(log_of(broken_at=1), ACKED)


def test_what_was_acked_without_an_offset_is_there_once() -> None:
    judge_found(log_of(b"a", b"b", b"c"), [b"c", b"a"])
    with pytest.raises(Violation, match="lost records: orders-0 has b'd' 0 times, which was acked"):
        judge_found(log_of(b"a", b"b", b"c"), [b"d"])
    with pytest.raises(Violation, match="lost records: orders-0 has b'a' 2 times, which was acked"):
        judge_found(log_of(b"a", b"b", b"a"), [b"a"])
