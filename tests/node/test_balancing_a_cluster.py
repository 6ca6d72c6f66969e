"""`penstock partitions balance` on nodes as processes; `bench/balance.py` shows the figures."""

from pathlib import Path

from rig.operating.balancing import balance_skewed, of_mean
from rig.operating.cluster import OperatedCluster

LIMIT = 1.3


def test_a_skew_of_ten_to_one_ends_below_the_limit_with_no_copy_that_is_not_needed(
    tmp_path: Path,
) -> None:
    with OperatedCluster(tmp_path) as cluster:
        cluster.start()
        report = balance_skewed(cluster, partitions=60, rounds=5, seconds=3)
    assert of_mean(report.grown_before) > 2
    assert of_mean(report.grown_after) <= LIMIT
    assert all(change["done"] for change in report.plan["changes"])
    assert report.spare_changes == 0
    # A partition is copied whole: one more than the load asks for, at most.
    largest = max(change["bytes"] for change in report.plan["changes"])
    assert report.least_bytes <= report.copied_bytes <= report.least_bytes + largest
