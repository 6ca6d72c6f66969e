"""`penstock partitions balance` on nodes as processes; `bench/balance.py` shows the figures."""

from pathlib import Path

from rig.cluster_questions import until
from rig.failover.questions import is_in_sync
from rig.operating.balancing import SkewedLoad, balance_skewed, equal_bytes, of_mean
from rig.operating.cluster import OperatedCluster
from rig.reassigning import create_on
from rig.stored_batches import stored_batches

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


def test_a_node_with_more_requests_for_as_many_bytes_gives_some_away(tmp_path: Path) -> None:
    """Nine partitions with as many bytes each; those of node 1 get forty times the requests."""
    with OperatedCluster(tmp_path) as cluster:
        cluster.start()
        create_on(
            cluster.addresses[1],
            "requested",
            [[index % 3 + 1] for index in range(9)],
            {"min.insync.replicas": "1"},
        )
        until("requested is in sync", lambda: is_in_sync(cluster, "requested"))
        load = SkewedLoad(cluster.bootstrap, "requested", partitions=9, records=equal_bytes)
        with load:
            hot = cluster.told("partitions", "hot", "--for", "3s", "--keys", "0")
            shown = cluster.done("partitions", "balance", "--for", "3s", "--dry-run")
            plan = cluster.told("partitions", "balance", "--for", "3s", "--yes")
        found = cluster.told("topics", "describe", "requested")[0]["partitions"]
    rates = {one["partition"]: one for one in hot}
    assert {one["partition"] for one in hot[:3]} == {0, 3, 6}, "the busiest come first"
    in_bytes = [one["bytes_in_per_second"] for one in hot]
    assert max(in_bytes) < 1.5 * min(in_bytes)
    assert rates[0]["requests_per_second"] > 10 * rates[1]["requests_per_second"] > 0
    assert "requests then" in shown
    before = {one["id"]: one["requests_per_second"] for one in plan["brokers"]}
    then = {one["id"]: one["requests_per_second_then"] for one in plan["brokers"]}
    assert before[1] > 0.9 * sum(before.values())
    assert max(then.values()) < 0.75 * sum(then.values())
    assert plan["balanced"]
    assert plan["changes"]
    assert all(change["done"] for change in plan["changes"])
    leaders = [one["leader"] for one in found if one["partition"] % 3 == 0]
    assert 0 < leaders.count(1) < 3, "what writes most requests is led by more than one node"


def test_requests_are_as_many_as_the_batches_on_disk(tmp_path: Path) -> None:
    with OperatedCluster(tmp_path, nodes=1) as cluster:
        cluster.start()
        create_on(cluster.addresses[1], "counted", [[1]] * 2, {"min.insync.replicas": "1"})
        load = SkewedLoad(cluster.bootstrap, "counted", partitions=2, records=equal_bytes)
        with load:
            many, few = cluster.told("partitions", "hot", "--for", "3s", "--keys", "0")
        stored = [len(stored_batches(cluster.data(1), "counted", index)) for index in range(2)]
    told = many["requests_per_second"] / few["requests_per_second"]
    # What is measured may begin and end within a round of the load: on a busy machine one of few.
    assert 0.5 < told / (stored[0] / stored[1]) < 2
