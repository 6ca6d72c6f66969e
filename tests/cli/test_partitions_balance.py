"""`penstock partitions balance` and `hot` on three nodes that are written to."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.cli import status
from penstock.client.admin.balancing import stop_all
from penstock.client.admin.reassignments import list_reassignments
from penstock.client.network.errors import Refused
from penstock.testing import Broker, running_broker
from rig.client_cluster import run_with_cluster
from rig.cluster_questions import until
from rig.command import Outcome
from rig.operating.balancing import SkewedLoad
from rig.reassigning import create_on

Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    with running_broker(nodes=3) as broker:
        yield broker


def create(cluster: Broker, topic: str, assignments: list[list[int]]) -> None:
    create_on(cluster.nodes[1], topic, assignments, {"min.insync.replicas": "1"})


def test_sixty_partitions_with_a_skew_of_ten_to_one_are_balanced(run: Run, cluster: Broker) -> None:
    create(cluster, "skewed", [[index % 3 + 1] for index in range(60)])
    with SkewedLoad(cluster.bootstrap, "skewed", partitions=60):
        planned = run(
            "partitions balance --for 3s --dry-run --json", bootstrap=cluster.bootstrap
        ).json()
        loads = [one["load"] for one in planned["brokers"]]
        assert loads[0] > 2 * planned["mean"]
        assert planned["balanced"]
        done = run("partitions balance --for 3s --yes --json").json()
        assert done["balanced"]
        assert done["changes"]
        assert all(change["done"] and change["bytes"] for change in done["changes"])
        assert all(change["replicas"] == [1] for change in done["changes"])
        again = run("partitions balance --for 3s --limit 1.4 --dry-run")
    assert again.status == 0
    assert "nothing to do: no broker is above 1.4 times the mean" in again.lines
    assert run("partitions reassign --verify --json").json()["throttles_removed"] == []


def test_leaders_are_moved_where_that_is_enough(run: Run, cluster: Broker) -> None:
    create(cluster, "led", [[1, 2, 3] for _ in range(6)])
    with SkewedLoad(cluster.bootstrap, "led", partitions=6):
        done = run("partitions balance --for 3s --yes --json", bootstrap=cluster.bootstrap).json()
    assert done["bytes_to_copy"] == 0
    assert {change["leader"] for change in done["changes"]} == {1}
    [described] = run("topics describe led --json").json()
    wanted = {change["partition"]: change["leader_then"] for change in done["changes"]}
    assert wanted
    for one in described["partitions"]:
        assert one["leader"] == wanted.get(one["partition"], 1)


def test_nothing_is_planned_while_partitions_move(
    run: Run, cluster: Broker, tmp_path: Path
) -> None:
    create(cluster, "moving", [[1]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for _ in range(50):
        producer.produce("moving", bytes(10_000), partition=0)
        producer.flush(60)
    path = tmp_path / "moves.json"
    partitions = [{"topic": "moving", "partition": 0, "replicas": [2]}]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    assert (
        run(f"partitions reassign {path} --throttle 2000", bootstrap=cluster.bootstrap).status == 0
    )
    refused = run("partitions balance --yes")
    assert refused.status == 1
    assert refused.out == b""
    assert refused.err.startswith("penstock: 1 partition is moving already: ")
    assert refused.err.count("\n") == 1
    assert run("partitions balance --stop").lines == ["cancelled the move of moving-0"]
    assert run("partitions balance --stop").err == (
        "penstock: nothing to stop: no partition moves\n"
    )


def test_a_move_that_cannot_be_cancelled_is_told(run: Run, tmp_path: Path) -> None:
    """The broker that had the partition is gone; all records are where it moves to."""
    with running_broker(nodes=3) as cluster:
        create(cluster, "stuck", [[3]])
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for _ in range(100):  # more than a follower fetches at once
            producer.produce("stuck", bytes(100_000), partition=0)
            producer.flush(60)
        slow = "follower.replication.throttled"
        throttled = run(
            f"configs alter --topic stuck --set {slow}.replicas=0:2", bootstrap=cluster.bootstrap
        )
        assert throttled.status == 0
        assert run(f"configs alter --broker 2 --set {slow}.rate=2000").status == 0
        path = tmp_path / "stuck.json"
        moves = [{"topic": "stuck", "partition": 0, "replicas": [1, 2]}]
        path.write_text(json.dumps({"version": 1, "partitions": moves}))
        assert run(f"partitions reassign {path}").status == 0

        def in_sync() -> list[int]:
            [described] = run("topics describe stuck --json").json()
            return sorted(described["partitions"][0]["in_sync"])

        until("broker 1 has all records", lambda: in_sync() == [1, 3])
        cluster.stop(3)
        until("broker 3 is gone", lambda: in_sync() == [1])
        outcome = run("partitions balance --stop")
    assert (outcome.status, outcome.out) == (1, b"")
    assert outcome.err.startswith("penstock: stuck-0: Unable to revert partition assignment")
    assert outcome.err.endswith("(0 of 1 moves were cancelled)\n")


def test_quiet_cluster_has_nothing_to_balance(run: Run) -> None:
    with running_broker() as broker:
        outcome = run("partitions balance --for 1s --yes", bootstrap=broker.bootstrap)
    assert outcome.status == 0
    assert outcome.lines == ["nothing to balance: nothing was written or read"]


def test_json_asks_nobody(run: Run, cluster: Broker) -> None:
    refused = run("partitions balance --json", bootstrap=cluster.bootstrap)
    assert refused.status == 2
    assert "give --yes or --dry-run" in refused.err


def test_a_balance_that_is_stopped_says_so_and_leaves_nothing_half_moved(
    run: Run, cluster: Broker
) -> None:
    """`--stop` in another terminal, while the throttle makes a copy last."""
    create(cluster, "stopped", [[1], [1], [1]])
    with SkewedLoad(cluster.bootstrap, "stopped", partitions=3):
        stopper = threading.Thread(target=stop_when_something_moves, args=(cluster,))
        stopper.start()
        stopped = run(
            "partitions balance --for 3s --yes --throttle 1000", bootstrap=cluster.bootstrap
        )
        stopper.join()
    assert stopped.status == 1
    assert "was cancelled by somebody else" in stopped.err
    told = run("partitions reassign --verify --json").json()
    assert told == {"partitions": [], "directories": [], "throttles_removed": []}


def stop_when_something_moves(cluster: Broker) -> None:
    def is_stopped() -> bool:
        try:
            return bool(run_with_cluster(cluster.bootstrap, stop_all).cancelled)
        except Refused:
            return False

    until("something moves and is stopped", is_stopped)


def test_stop_removes_the_throttle_of_moves_that_have_ended(run: Run, cluster: Broker) -> None:
    """Such as those of a balance that was killed."""
    create(cluster, "left", [[1]])
    slow = "follower.replication.throttled"
    at = cluster.bootstrap
    assert run(f"configs alter --topic left --set {slow}.replicas=0:2", bootstrap=at).status == 0
    assert run(f"configs alter --broker 2 --set {slow}.rate=2000").status == 0
    stopped = run("partitions balance --stop")
    assert (stopped.status, stopped.out) == (0, b"")
    assert stopped.err == "removed the throttle of broker 2, topic left\n"
    told = run("partitions reassign --verify --json").json()
    assert told["throttles_removed"] == []
    assert run("partitions balance --stop").status == 1, "nothing is left to stop"


def test_hot_partitions_and_the_keys_that_heat_them(run: Run, cluster: Broker) -> None:
    create(cluster, "heated", [[1], [2], [3]])
    with SkewedLoad(cluster.bootstrap, "heated", partitions=3):
        told = run(
            "partitions hot --for 2s --count 2 --keys 2 --json", bootstrap=cluster.bootstrap
        ).json()
        shown = run("partitions hot --for 1s --count 1")
    first, second = told
    assert (first["topic"], first["partition"], first["leader"]) == ("heated", 0, 1)
    assert first["bytes_in_per_second"] > 5 * second["bytes_in_per_second"] > 0
    assert [one["key"] for one in first["keys"]] == ["loud", "quiet-0"]
    assert 0.85 < first["keys"][0]["share"] < 0.95
    assert "loud 90%" in shown.text


def test_ctrl_c_cancels_the_copies_at_hand_and_says_so(run: Run, cluster: Broker) -> None:
    create(cluster, "cut-short", [[1], [1], [1]])
    command = ["partitions", "balance", "--for", "3s", "--yes", "--throttle", "1000"]
    with SkewedLoad(cluster.bootstrap, "cut-short", partitions=3):
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli.main", *command],
            env={**os.environ, "PENSTOCK_BOOTSTRAP": cluster.bootstrap},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(
            "something moves",
            lambda: bool(run_with_cluster(cluster.bootstrap, list_reassignments)),
        )
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == status.INTERRUPTED, err
    assert "changes, " in out, "the plan was shown"
    assert "cancelled the move of cut-short-" in err
    assert re.search(r"^\d+ of \d+ changes are done$", err, re.MULTILINE)
    told = run("partitions reassign --verify --json", bootstrap=cluster.bootstrap).json()
    assert told == {"partitions": [], "directories": [], "throttles_removed": []}
