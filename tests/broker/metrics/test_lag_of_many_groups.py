"""What is told of groups has bounds, and says what is beyond them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.metrics.groups import (
    COMMITTED,
    ELSEWHERE,
    LEFT_OUT,
    MISSED,
    NUM_OFFSETS,
    RECORDS,
    SECONDS,
    WITHOUT_AGE,
    group_metrics,
)
from penstock.groups.records import OffsetValue
from penstock.groups.shard import GroupShard
from penstock.metrics.family import Sample
from penstock.model.limit import METRICS_LAG_AGES_MAX, METRICS_LAGS_MAX
from penstock.model.offset import Offset
from penstock.world.clock import RealClock
from rig.produced import produced
from rig.services import Broker


class Groups:
    """One shard, as a coordinator has it."""

    def __init__(self) -> None:
        self.shards = [GroupShard()]

    def commit(self, group: str, index: int, offset: int) -> None:
        value = OffsetValue(offset=offset, leader_epoch=None, metadata="", commit_timestamp_ms=0)
        self.shards[0].offsets.put(group, "t", index, value)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    one = Broker(tmp_path)
    one.create_topic("t")
    one.partition("t").append(produced(3, timestamp_ms=1), all_acks=True, now_ms=1)
    yield one
    one.close()


def told(broker: Broker, groups: Groups) -> list[Sample]:
    source = group_metrics(groups, broker.partitions, RealClock())
    return [one for one in source.samples() if one is not None]


def test_offsets_and_ages_beyond_the_bounds_are_left_out(broker: Broker) -> None:
    groups = Groups()
    for number in range(METRICS_LAGS_MAX + 7):
        groups.commit(f"g{number}", 0, 1)
    samples = told(broker, groups)
    counts = Counter(one.family.name for one in samples)
    assert counts[COMMITTED.name] == counts[RECORDS.name] == METRICS_LAGS_MAX
    assert counts[SECONDS.name] == METRICS_LAG_AGES_MAX
    assert {one.value for one in samples if one.family is RECORDS} == {2}
    unread = METRICS_LAGS_MAX - METRICS_LAG_AGES_MAX
    assert [one.value for one in samples if one.family is WITHOUT_AGE] == [unread]
    assert [one.value for one in samples if one.family is LEFT_OUT] == [7]
    assert [one.value for one in samples if one.family is NUM_OFFSETS] == [METRICS_LAGS_MAX + 7]


def test_a_partition_without_a_replica_here_is_counted(broker: Broker) -> None:
    groups = Groups()
    groups.commit("g", 0, 3)
    groups.commit("g", 5, 3)
    samples = told(broker, groups)
    assert [one.value for one in samples if one.family is COMMITTED] == [3, 3]
    assert [one.labels for one in samples if one.family is RECORDS] == [("g", "t", "0")]
    assert [one.value for one in samples if one.family is ELSEWHERE] == [1]


def test_records_deleted_unread_are_told(broker: Broker) -> None:
    broker.partition("t").append(produced(2, timestamp_ms=1), all_acks=True, now_ms=1)
    broker.partition("t").advance_start(Offset(3))
    groups = Groups()
    groups.commit("g", 0, 1)
    groups.commit("h", 0, 3)
    samples = told(broker, groups)
    assert [(one.labels[0], one.value) for one in samples if one.family is MISSED] == [("g", 2)]
