"""What a node tells of the lag of its groups is what its clients have left to read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.coordinators.group_lag import batch_time_ms, partition_lag
from penstock.groups.lag import Lag
from penstock.model.offset import Offset
from rig.produced import produced
from rig.services import Broker

NOW_MS = 1_000_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    one = Broker(tmp_path)
    yield one
    one.close()


def fill(broker: Broker, topic: str, *stamps_ms: int, index: int = 0) -> None:
    """A batch of three records for each timestamp."""
    for stamp_ms in stamps_ms:
        broker.partition(topic, index).append(
            produced(3, timestamp_ms=stamp_ms), all_acks=True, now_ms=NOW_MS
        )


def lags(broker: Broker, **committed: int) -> dict[int, Lag]:
    """By committed offset of partition `p0`, `p1`, ... of topic `t`."""
    return {
        int(name[1:]): partition_lag(
            broker.partition("t", int(name[1:])), Offset(offset), now_ms=NOW_MS
        )
        for name, offset in committed.items()
    }


def test_lag_is_told_in_records_and_as_the_age_of_the_first_unread_batch(broker: Broker) -> None:
    broker.create_topic("t", partitions=3)
    fill(broker, "t", 400_000, 500_000, 600_000, index=0)
    fill(broker, "t", 400_000, index=1)
    assert lags(broker, p0=3, p1=3, p2=0) == {
        0: Lag(records=6, missed=0, age_ms=500_000),
        1: Lag(records=0, missed=0, age_ms=0),
        2: Lag(records=0, missed=0, age_ms=0),
    }


def test_age_within_a_batch_is_that_of_its_first_record(broker: Broker) -> None:
    broker.create_topic("t")
    fill(broker, "t", 400_000, 500_000)
    assert lags(broker, p0=4) == {0: Lag(records=2, missed=0, age_ms=500_000)}


def test_records_deleted_unread_are_missed(broker: Broker) -> None:
    broker.create_topic("t")
    fill(broker, "t", 400_000, 500_000)
    broker.partition("t").advance_start(Offset(3))
    assert lags(broker, p0=1) == {0: Lag(records=3, missed=2, age_ms=500_000)}


def test_topic_that_stamps_at_the_append_is_as_old_as_its_append(broker: Broker) -> None:
    broker.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    fill(broker, "t", 400_000)
    log = broker.partition("t").log
    assert batch_time_ms(log, Offset(1), until_offset=log.end_offset) == NOW_MS
