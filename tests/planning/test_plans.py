"""The plans: figures that were worked out by hand, and what must hold of all of them."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.planning import (
    Need,
    PlanError,
    plan_cluster,
    plan_disk,
    plan_memory,
    plan_metadata,
    plan_partitions,
)
from penstock.planning.memory import NODE_BYTES, REPLICA_BYTES
from rig.source_tree import ROOT


def test_thirty_consumers_decide_where_ten_partitions_would_carry_the_throughput() -> None:
    plan = plan_partitions(throughput_mb=100, partition_mb=10, consumers=30, brokers=6)
    assert plan.needs == {Need.THROUGHPUT: 10, Need.CONSUMERS: 30, Need.BROKERS: 6}
    assert (plan.partitions, plan.decided_by) == (30, Need.CONSUMERS)
    assert plan.achievable_mb == 300
    assert plan.spread.partitions_per_broker == 5
    assert plan.spread.replicas_per_broker == 15
    assert plan.spread.is_within_limit


def test_seven_days_at_100_mb_are_60_tb_a_replica() -> None:
    plan = plan_disk(throughput_mb=100, retention_seconds=7 * 86_400, brokers=6, partitions=30)
    assert plan.replica_bytes == 60_480_000_000_000
    assert plan.segments_bytes == 30 << 30
    assert plan.stored_bytes == 3 * (60_480_000_000_000 + (30 << 30))
    assert plan.broker_bytes == plan.stored_bytes // 6
    assert plan.disk_bytes == pytest.approx(plan.broker_bytes / 0.8)


@pytest.mark.parametrize(
    ("throughput_mb", "consumers", "brokers", "partitions", "decided_by"),
    [
        (1_000, 30, 6, 100, Need.THROUGHPUT),
        (1_001, 30, 6, 101, Need.THROUGHPUT),
        (1, 0, 6, 6, Need.BROKERS),
        (60, 6, 6, 6, Need.THROUGHPUT),
        (1, 6, 6, 6, Need.CONSUMERS),
    ],
)
def test_the_largest_need_decides(
    throughput_mb: float, consumers: int, brokers: int, partitions: int, decided_by: Need
) -> None:
    plan = plan_partitions(throughput_mb=throughput_mb, consumers=consumers, brokers=brokers)
    assert (plan.partitions, plan.decided_by) == (partitions, decided_by)


def test_fractions_of_a_mb_ask_for_no_partition_more() -> None:
    # 1.1 / 0.1 is 11.000000000000002 in floating point.
    plan = plan_partitions(throughput_mb=1.1, partition_mb=0.1, brokers=3)
    assert plan.partitions == 11
    assert plan.achievable_mb == 1.1


def test_slow_consumers_need_to_be_more() -> None:
    plan = plan_partitions(throughput_mb=100, consumers=3, consumer_mb=3, brokers=3)
    assert (plan.partitions, plan.decided_by, plan.consumers) == (34, Need.CONSUMERS, 34)


def test_more_replicas_than_4000_a_broker_are_too_many() -> None:
    just = plan_metadata(partitions=8_000, brokers=6, replication_factor=3).spread
    assert (just.replicas_per_broker, just.is_within_limit, just.brokers_min) == (4_000, True, 6)
    above = plan_metadata(partitions=8_001, brokers=6, replication_factor=3).spread
    assert (above.replicas_per_broker, above.is_within_limit) == (4_001, False)
    assert above.brokers_min == 7


def test_metadata_are_what_40000_partitions_were_measured_to_take() -> None:
    """docs/scale.md: a snapshot of 4.71 MiB, an image of 18.0 MiB, 8.8 MiB with the log."""
    plan = plan_metadata(partitions=40_000, brokers=10)
    assert plan.snapshot_bytes / (1 << 20) == pytest.approx(4.71, abs=0.03)
    assert plan.image_bytes / (1 << 20) == pytest.approx(18.0, abs=0.1)
    assert plan.voter_bytes / (1 << 20) > 8.8
    assert plan.spread.replicas_per_broker == 12_000


def test_a_process_is_planned_with_what_was_measured() -> None:
    """Of a node that tells metrics, as one that is watched does."""
    page = (ROOT / "bench/README.md").read_text(encoding="utf-8")
    [idle] = re.findall(r"takes [0-9]+ MiB idle \(`compare.py`\), with them ([0-9]+)\.", page)
    assert int(idle) << 20 == NODE_BYTES
    [row] = re.findall(
        r"^\| RSS after work \| ([0-9]+) MiB \| \| ([0-9]+) MiB ", page, re.MULTILINE
    )
    for partitions, rss in zip((400, 4_000), map(int, row), strict=True):
        planned = plan_memory(
            throughput_mb=1,
            metadata=plan_metadata(partitions=partitions, brokers=1, replication_factor=1),
        )
        assert planned.process_bytes == pytest.approx(rss << 20, rel=0.04)


@pytest.mark.parametrize(
    ("page", "figures"),
    [
        ("docs/planning.md", r"\| process \| {node} MiB, {replica} KiB for each replica "),
        ("docs/scale.md", r"a partition takes some {replica} KiB of memory"),
    ],
)
def test_the_guides_tell_the_figures_of_a_process(page: str, figures: str) -> None:
    told = figures.format(node=NODE_BYTES >> 20, replica=REPLICA_BYTES >> 10)
    assert re.search(told, (ROOT / page).read_text(encoding="utf-8"))


def test_a_cluster_is_planned_whole() -> None:
    plan = plan_cluster(throughput_mb=100, consumers=30, brokers=6, groups=2)
    assert plan.partitions.partitions == 30
    assert plan.in_mb == 50
    assert plan.out_mb == pytest.approx(100 * 4 / 6)
    assert plan.memory.page_cache_bytes == 50_000_000 * 30
    assert plan.memory.node_bytes == NODE_BYTES
    assert plan.memory.replicas_bytes == 15 * REPLICA_BYTES
    assert plan.memory.image_bytes == plan.metadata.image_bytes == 30 * 473
    assert plan.memory.whole_bytes == plan.memory.process_bytes + 1_500_000_000
    assert plan.disk.replica_bytes == 60_480_000_000_000


@pytest.mark.parametrize("throughput_mb", [0, -1, math.inf, math.nan, 1e300])
def test_a_throughput_that_is_none_is_refused(throughput_mb: float) -> None:
    with pytest.raises(PlanError, match=r"^throughput is .*: expected more than 0"):
        plan_cluster(throughput_mb=throughput_mb)


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(PlanError) as refused:
        plan_partitions(throughput_mb=1, brokers=1, replication_factor=3)
    assert str(refused.value) == ("3 replicas of a partition need as many brokers, and there is 1")


@pytest.mark.parametrize(
    "wrong",
    [
        {"consumers": -1},
        {"brokers": 0},
        {"groups": -1},
        {"retention_seconds": 0},
        {"fill_percent": 0},
    ],
)
def test_counts_that_are_none_are_refused(wrong: dict[str, int]) -> None:
    [name] = wrong
    with pytest.raises(PlanError, match=f"^{name.split('_')[0]}"):
        plan_cluster(throughput_mb=1, **wrong)


rates = st.floats(min_value=0.001, max_value=1e6)
counts = st.integers(min_value=3, max_value=100_000)


@given(
    first=st.tuples(rates, counts, counts),
    second=st.tuples(rates, counts, counts),
    partition_mb=rates,
)
def test_partitions_never_fall_where_throughput_consumers_or_brokers_rise(
    first: tuple[float, int, int], second: tuple[float, int, int], partition_mb: float
) -> None:
    low = tuple(map(min, first, second))
    high = tuple(map(max, first, second))

    def partitions(given: tuple[float, ...]) -> int:
        throughput_mb, consumers, brokers = given
        return plan_partitions(
            throughput_mb=throughput_mb,
            partition_mb=partition_mb,
            consumers=int(consumers),
            brokers=int(brokers),
        ).partitions

    assert partitions(low) <= partitions(high)
    for index in range(3):
        risen = (*low[:index], high[index], *low[index + 1 :])
        assert partitions(low) <= partitions(risen) <= partitions(high)


@given(throughput_mb=rates, partition_mb=rates, consumers=counts, brokers=counts)
def test_a_plan_carries_the_throughput_and_leaves_nobody_idle(
    throughput_mb: float, partition_mb: float, consumers: int, brokers: int
) -> None:
    plan = plan_partitions(
        throughput_mb=throughput_mb,
        partition_mb=partition_mb,
        consumers=consumers,
        brokers=brokers,
    )
    assert plan.achievable_mb >= throughput_mb - 1e-6
    assert plan.partitions >= consumers
    assert plan.spread.partitions_per_broker >= 1
    assert plan.needs[plan.decided_by] == plan.partitions
