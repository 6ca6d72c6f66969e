"""A lag that a node does not know is not taken for a good one: its alert stays as it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.alerts.rules import GROUP_LAG, GROUP_WITHOUT_MEMBERS
from penstock.broker.alerts.group_figures import GroupFigures, group_figures, may_be_left_out
from penstock.broker.metrics.groups import MEMBERS, group_metrics
from penstock.groups.records import OffsetValue
from penstock.groups.shard import GroupShard
from penstock.model.limit import METRICS_LAG_AGES_MAX, METRICS_LAGS_MAX
from penstock.world.clock import RealClock
from rig.produced import produced
from rig.services import Broker

END = 3
ELSEWHERE = 5  # a partition that the broker has no replica of
HOUR_S = 3_600


class Groups:
    """One shard, as a coordinator has it."""

    def __init__(self) -> None:
        self.shards = [GroupShard()]

    def commit(self, group: str, offset: int, *, index: int = 0, topic: str = "t") -> None:
        value = OffsetValue(offset=offset, leader_epoch=None, metadata="", commit_timestamp_ms=0)
        self.shards[0].offsets.put(group, topic, index, value)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    one = Broker(tmp_path)
    for topic in ("t", "fresh"):
        one.create_topic(topic)
    now_ms = RealClock().now_ms()
    for topic, timestamp_ms in (("t", now_ms - HOUR_S * 1000), ("fresh", now_ms)):
        one.partition(topic).append(
            produced(END, timestamp_ms=timestamp_ms), all_acks=True, now_ms=now_ms
        )
    yield one
    one.close()


def told(broker: Broker, groups: Groups, members: dict[str, int] | None = None) -> GroupFigures:
    source = group_metrics(groups, broker.partitions, RealClock())
    samples = [one for one in source.samples() if one is not None]
    samples += [MEMBERS.sample(count, group) for group, count in (members or {}).items()]
    return group_figures(samples, elsewhere={}, lag=GROUP_LAG, unattended=GROUP_WITHOUT_MEMBERS)


def test_a_group_that_has_read_all_is_not_behind(broker: Broker) -> None:
    groups = Groups()
    groups.commit("g", END)
    assert told(broker, groups, {"g": 0}) == ({"g t": 0}, {"g": 0}, True)


def test_a_replay_of_dead_letters_has_nobody_to_keep_up(broker: Broker) -> None:
    groups = Groups()
    groups.commit("penstock-dlq-t", 0)
    groups.commit("g", END)
    found = told(broker, groups, {"penstock-dlq-t": 0, "g": 0})
    assert found == ({"g t": 0}, {"g": 0}, True)


def test_a_query_of_spark_has_no_members_and_is_left_to_the_alert_about_lag(broker: Broker) -> None:
    groups = Groups()
    groups.commit("spark-by-day", 0)
    found = told(broker, groups, {"spark-by-day": 0})
    assert (found.lags["spark-by-day t"] or 0) >= HOUR_S
    assert found.unattended == {}


def test_a_partition_without_a_replica_here_leaves_the_lag_unknown(broker: Broker) -> None:
    groups = Groups()
    groups.commit("g", END)
    groups.commit("g", END, index=ELSEWHERE)
    assert told(broker, groups, {"g": 0}) == ({"g t": None}, {"g": None}, True)


def test_a_lag_beyond_the_threshold_is_told_whatever_else_is_not_known(broker: Broker) -> None:
    groups = Groups()
    groups.commit("g", 0)
    groups.commit("g", END, index=ELSEWHERE)
    groups.commit("g", END, topic="fresh", index=ELSEWHERE)
    found = told(broker, groups, {"g": 0})
    assert found.lags["g fresh"] is None
    assert (found.lags["g t"] or 0) >= HOUR_S
    assert (found.unattended["g"] or 0) >= HOUR_S


def test_lags_whose_age_nobody_has_read_are_not_known(broker: Broker) -> None:
    groups = Groups()
    for number in range(METRICS_LAG_AGES_MAX):
        groups.commit(f"dead{number}", 0)
    groups.commit("late", 0)
    groups.commit("well", END)
    found = told(broker, groups, {"late": 0, "well": 0})
    assert found.lags["late t"] is None
    assert found.lags["well t"] == 0
    assert found.unattended == {"late": None, "well": 0}


def test_what_has_no_offsets_any_more_was_not_left_out() -> None:
    groups = Groups()
    groups.commit("a group", END)
    by_rule = may_be_left_out(groups)
    of_lag, of_members = by_rule[GROUP_LAG.name], by_rule[GROUP_WITHOUT_MEMBERS.name]
    assert of_lag("a group t")
    assert of_members("a group")
    assert not of_lag("a group other")
    assert not of_lag("a t")
    assert not of_members("a")


def test_offsets_that_are_left_out_leave_others_unknown(broker: Broker) -> None:
    groups = Groups()
    for number in range(METRICS_LAGS_MAX - 1):
        groups.commit(f"well{number}", END)
    groups.commit("cut", END)
    assert told(broker, groups).lags["cut t"] == 0
    groups.commit("cut", 0, topic="t", index=1)
    found = told(broker, groups, {"cut": 0, "attended": 2})
    assert not found.is_complete
    assert found.lags["cut t"] is None
    assert found.lags["well0 t"] == 0
    assert found.unattended == {"cut": None, "attended": 0}


def test_a_group_of_which_nobody_has_told_members_is_not_known(broker: Broker) -> None:
    groups = Groups()
    groups.commit("g", 0)
    many = {f"other{number}": 1 for number in range(METRICS_LAGS_MAX)}
    assert told(broker, groups, many).unattended == {"g": None}
