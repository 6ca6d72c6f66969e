"""The checker of compaction knows what a compacted log may look like, and what it may not."""

import pytest

from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.model.identity import TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.layout import TimestampType
from penstock.sim.checker.compaction import check_compaction
from penstock.sim.errors import Violation
from penstock.sim.history import History
from penstock.sim.reading import FinalLog

STATE = TopicPartition("state", 0)
TOMBSTONE = None


class Written:
    """Acked records of one partition, in order, and what is left of them."""

    def __init__(self, *records: tuple[bytes, int | None]) -> None:
        self.history = History()
        for offset, (key, value_bytes) in enumerate(records):
            sent = self.history.send(
                producer="p", number=offset, topic="state", key=key, value_bytes=value_bytes
            )
            self.history.ack(sent, STATE, offset)

    def check(self, *left: int) -> None:
        log = FinalLog(
            partition=STATE, start_offset=0, end_offset=len(self.history.sent), compacted=True
        )
        log.records = [self._record(offset) for offset in left]
        check_compaction(self.history, [log])

    def _record(self, offset: int) -> ConsumedRecord:
        sent = self.history.sent[f"p/{offset}"]
        return ConsumedRecord(
            "state", 0, Offset(offset), 0, TimestampType.CREATE_TIME, sent.key, sent.value,
            sent.headers, LeaderEpoch(0),
        )  # fmt: skip


def test_older_values_may_go_or_stay() -> None:
    written = Written((b"a", 1), (b"b", 1), (b"a", 1))
    written.check(1, 2)
    written.check(0, 1, 2)


def test_the_latest_value_must_stay() -> None:
    written = Written((b"a", 1), (b"b", 1), (b"a", 1))
    with pytest.raises(Violation, match="set"):
        written.check(1)
    with pytest.raises(Violation, match="set"):
        written.check(0, 1)


def test_a_deleted_key_may_be_gone_with_its_tombstone() -> None:
    written = Written((b"a", 1), (b"a", TOMBSTONE))
    written.check()
    written.check(1)


def test_a_deleted_key_must_not_come_back() -> None:
    with pytest.raises(Violation, match="deleted"):
        Written((b"a", 1), (b"a", TOMBSTONE)).check(0)


def test_a_key_may_be_gone_by_a_tombstone_whose_ack_a_power_loss_took_back() -> None:
    written = Written((b"a", 1), (b"b", 1), (b"a", TOMBSTONE))
    written.history.of(STATE).synced_offset = 2
    written.history.power_lost(lasting=frozenset())
    written.check(1)
    with pytest.raises(Violation, match="set"):
        written.check(0)
