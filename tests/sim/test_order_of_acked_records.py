"""A record is in a log once, and acked records of one writer are in the order of their sending."""

import pytest

from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.model.identity import TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.layout import TimestampType
from penstock.sim.cluster.judgement import judge_order
from penstock.sim.errors import Violation
from penstock.sim.reading import FinalLog

PLACE = TopicPartition("orders", 0)


def log_of(*values: bytes) -> FinalLog:
    records = [
        ConsumedRecord(
            topic=PLACE.topic, partition=PLACE.partition, offset=Offset(offset), timestamp_ms=0,
            timestamp_type=TimestampType.CREATE_TIME, key=None, value=value, headers=(),
            leader_epoch=LeaderEpoch(0),
        )
        for offset, value in enumerate(values)
    ]  # fmt: skip
    return FinalLog(
        partition=PLACE, start_offset=0, end_offset=len(values), compacted=False, records=records
    )


def test_writers_may_take_turns() -> None:
    judge_order(log_of(b"1 of a", b"1 of b", b"2 of a", b"2 of b"), {0, 1, 2, 3})


def test_a_record_that_is_there_twice_is_found() -> None:
    with pytest.raises(Violation, match="duplicates: orders-0 has b'1 of a' at 0 and at 2"):
        judge_order(log_of(b"1 of a", b"2 of a", b"1 of a"), {0, 1})


def test_an_acked_record_before_an_earlier_one_is_found() -> None:
    with pytest.raises(Violation, match="order: orders-0 has b'1 of a' after number 2"):
        judge_order(log_of(b"2 of a", b"1 of a"), {0, 1})


def test_a_record_that_its_writer_gave_up_may_come_late() -> None:
    judge_order(log_of(b"2 of a", b"1 of a"), {0})
