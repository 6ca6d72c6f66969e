"""What a node tells of the lag of its groups is what its clients have left to read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.coordinators.group_lag import WALK_MAX
from penstock.broker.metrics.lag_ages import LagAges
from penstock.groups.lag import Lag
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import Offset
from penstock.replication.marker import Marker
from penstock.replication.partition import Appended
from rig.produced import produced
from rig.services import Broker

MARKED_MS = 100_000  # long before the records
NOW_MS = 1_000_000
PRODUCER = 7


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
    ages = LagAges()
    return {
        index: ages.lag("g", broker.partition("t", index), Offset(offset), now_ms=NOW_MS)
        for name, offset in committed.items()
        for index in (int(name[1:]),)
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
    assert lags(broker, p0=1) == {0: Lag(records=2, missed=0, age_ms=0)}


def write_in_transaction(broker: Broker, stamp_ms: int, *, sequence: int = 0) -> None:
    partition = broker.partition("t")
    guard = partition.guards.take(ProducerId(PRODUCER), sequence=sequence)
    batch = produced(
        3,
        producer_id=PRODUCER,
        epoch=0,
        sequence=sequence,
        transactional=True,
        timestamp_ms=stamp_ms,
    )
    outcome = partition.append(batch, all_acks=True, now_ms=NOW_MS, guard=guard)
    assert isinstance(outcome, Appended), outcome
    partition.guards.release(ProducerId(PRODUCER), guard)


def end_transaction(broker: Broker, *, committed: bool) -> None:
    marker = Marker(
        producer_id=ProducerId(PRODUCER),
        producer_epoch=ProducerEpoch(0),
        coordinator_epoch=0,
        committed=committed,
    )
    assert isinstance(broker.partition("t").end_transaction(marker, now_ms=MARKED_MS), int)


def test_markers_are_nothing_to_read(broker: Broker) -> None:
    broker.create_topic("t")
    write_in_transaction(broker, 400_000)
    end_transaction(broker, committed=True)
    assert lags(broker, p0=3) == {0: Lag(records=1, missed=0, age_ms=0)}
    assert lags(broker, p0=2) == {0: Lag(records=2, missed=0, age_ms=600_000)}


def test_records_behind_markers_are_as_old_as_they_are(broker: Broker) -> None:
    broker.create_topic("t")
    write_in_transaction(broker, 400_000)
    for _ in range(3):
        end_transaction(broker, committed=True)
    fill(broker, "t", 700_000)
    assert lags(broker, p0=3) == {0: Lag(records=6, missed=0, age_ms=300_000)}


def test_records_of_aborted_transactions_are_nothing_to_read(broker: Broker) -> None:
    broker.create_topic("t")
    write_in_transaction(broker, 300_000)
    write_in_transaction(broker, 400_000, sequence=3)
    end_transaction(broker, committed=False)
    assert lags(broker, p0=0) == {0: Lag(records=7, missed=0, age_ms=0)}
    fill(broker, "t", 700_000)
    assert lags(broker, p0=0) == {0: Lag(records=10, missed=0, age_ms=300_000)}


def test_records_of_an_open_transaction_are_as_old_as_they_are(broker: Broker) -> None:
    broker.create_topic("t")
    write_in_transaction(broker, 300_000)
    end_transaction(broker, committed=False)
    write_in_transaction(broker, 400_000, sequence=3)
    assert lags(broker, p0=0) == {0: Lag(records=7, missed=0, age_ms=600_000)}


def test_the_look_for_records_among_markers_has_an_end(broker: Broker) -> None:
    broker.create_topic("t")
    write_in_transaction(broker, 400_000)
    for _ in range(WALK_MAX + 1):
        end_transaction(broker, committed=True)
    assert lags(broker, p0=3) == {0: Lag(records=WALK_MAX + 1, missed=0, age_ms=NOW_MS - MARKED_MS)}
    assert lags(broker, p0=4) == {0: Lag(records=WALK_MAX, missed=0, age_ms=0)}
