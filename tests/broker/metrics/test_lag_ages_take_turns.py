"""Ages of lags are read in turns and remembered, so that no group is left out in every scrape."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.metrics import lag_ages
from penstock.broker.metrics.groups import SECONDS, WITHOUT_AGE, group_metrics
from penstock.groups.records import OffsetValue
from penstock.groups.shard import GroupShard
from penstock.metrics.family import Source
from penstock.model.offset import Offset
from penstock.world.clock import RealClock
from rig.produced import produced
from rig.services import Broker

AGES_MAX = 2
RECORDS = 9
NOW_MS = 1_000_000


class StoppedClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return 0

    def monotonic_us(self) -> int:
        return 0


class Groups:
    """One shard, as a coordinator has it."""

    def __init__(self) -> None:
        self.shards = [GroupShard()]

    def commit(self, group: str, offset: int) -> None:
        value = OffsetValue(offset=offset, leader_epoch=None, metadata="", commit_timestamp_ms=0)
        self.shards[0].offsets.put(group, "t", 0, value)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_ages, "METRICS_LAG_AGES_MAX", AGES_MAX)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    one = Broker(tmp_path)
    one.create_topic("t")
    fill(one)
    yield one
    one.close()


def fill(broker: Broker) -> None:
    for number in range(RECORDS):
        broker.partition("t").append(produced(timestamp_ms=number), all_acks=True, now_ms=1)


def told(source: Source) -> tuple[set[str], float]:
    """Groups whose lag has an age, and how many lags have none."""
    samples = [one for one in source.samples() if one is not None]
    [without] = [one.value for one in samples if one.family is WITHOUT_AGE]
    return {one.labels[0] for one in samples if one.family is SECONDS}, without


def ages_ms(source: Source, now_ms: int) -> dict[str, int]:
    return {
        one.labels[0]: round(now_ms - one.value * 1000)
        for one in source.samples()
        if one is not None and one.family is SECONDS
    }


def test_groups_that_stand_still_keep_no_other_from_being_told(broker: Broker) -> None:
    groups = Groups()
    for name in ("dead1", "dead2", "dead3", "late"):
        groups.commit(name, 0)
    source = group_metrics(groups, broker.partitions, RealClock())
    assert told(source) == ({"dead1", "dead2"}, 2)
    assert told(source) == ({"dead1", "dead2", "dead3", "late"}, 0)
    assert told(source) == ({"dead1", "dead2", "dead3", "late"}, 0)


def test_groups_that_go_on_are_told_in_turns(broker: Broker) -> None:
    groups = Groups()
    names = ("a", "b", "c", "d", "e")
    source = group_metrics(groups, broker.partitions, RealClock())
    rounds = []
    for offset in range(4):
        for name in names:
            groups.commit(name, offset)
        rounds.append(told(source))
    assert rounds == [({"a", "b"}, 3), ({"c", "d"}, 3), ({"e"}, 4), ({"a", "b"}, 3)]


def test_a_scrape_that_is_given_up_takes_no_turn(broker: Broker) -> None:
    groups = Groups()
    for name in ("dead1", "dead2", "late"):
        groups.commit(name, 0)
    source = group_metrics(groups, broker.partitions, RealClock())
    for one in source.samples():
        if one is not None and one.family is SECONDS:
            break
    assert told(source) == ({"dead1", "dead2"}, 1)
    assert told(source) == ({"dead1", "dead2", "late"}, 0)


def test_what_is_remembered_belongs_to_the_records_that_are_there(broker: Broker) -> None:
    groups = Groups()
    groups.commit("g", 3)
    source = group_metrics(groups, broker.partitions, StoppedClock())
    assert ages_ms(source, NOW_MS) == {"g": 3}
    broker.partition("t").advance_start(Offset(5))
    assert ages_ms(source, NOW_MS) == {"g": 5}
    broker.delete_topic("t")
    broker.create_topic("t")
    broker.partition("t").append(produced(RECORDS, timestamp_ms=77), all_acks=True, now_ms=1)
    assert ages_ms(source, NOW_MS) == {"g": 77}
