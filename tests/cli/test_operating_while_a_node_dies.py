"""The node that a command asks is killed while partitions move: another one is asked."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from penstock.cli import status
from penstock.client.admin.reassignments import list_reassignments
from penstock.testing import Broker
from rig.client_cluster import run_with_cluster
from rig.cluster_questions import until
from rig.command import Outcome
from rig.operating.balancing import SkewedLoad
from rig.reassigning import create_on, ongoing

Run = Callable[..., Outcome]
SLOW = 2_000  # bytes a second: a move of what a test writes takes minutes
THREE_NODES = pytest.mark.penstock(nodes=3, settings={"min.insync.replicas": 1})


def started(command: list[str], *, bootstrap: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", "partitions", *command],
        env={**os.environ, "PENSTOCK_BOOTSTRAP": bootstrap},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def throttled_topics(run: Run, at: str, *topics: str) -> list[str]:
    """Those that have a setting of a throttle."""
    found = []
    for topic in topics:
        told = run(f"configs describe --topic {topic} --json", bootstrap=at).json()
        found += [topic for one in told if "throttled" in one["name"]]
    return found


@THREE_NODES
def test_a_watched_move_is_watched_to_its_end(run: Run, penstock: Broker) -> None:
    at = penstock.nodes[1]
    create_on(at, "watched", [[1]])
    penstock.produce("watched", [os.urandom(10_000) for _ in range(50)], partition=0)
    path = penstock.data / "moves.json"
    targets = [{"topic": "watched", "partition": 0, "replicas": [2]}]
    path.write_text(json.dumps({"version": 1, "partitions": targets}))
    command = ["reassign", str(path), "--throttle", str(SLOW), "--watch", "--json"]
    with started(command, bootstrap=penstock.nodes[3]) as watching:
        until("it moves", lambda: len(ongoing(at)) == 1)
        penstock.kill(3)
        faster = run(f"partitions reassign {path} --throttle 100000000", bootstrap=at)
        assert faster.status == 0, faster.err
        out, err = watching.communicate(timeout=120)
    assert watching.returncode == 0, err
    assert [one["state"] for one in json.loads(out)["partitions"]] == ["complete"]
    assert throttled_topics(run, at, "watched") == []


@THREE_NODES
def test_a_balance_that_is_ended_takes_its_moves_back(run: Run, penstock: Broker) -> None:
    at = penstock.nodes[1]
    create_on(at, "balanced", [[1], [1], [1]])
    with SkewedLoad(at, "balanced", partitions=3):
        command = ["balance", "--for", "2s", "--yes", "--throttle", "1000"]
        balancing = started(command, bootstrap=penstock.nodes[3])
        until("it moves", lambda: bool(run_with_cluster(at, list_reassignments)))
    with balancing:
        penstock.kill(3)
        balancing.send_signal(signal.SIGTERM)
        _, err = balancing.communicate(timeout=120)
    assert balancing.returncode == status.INTERRUPTED, err
    assert "cancelled the move of balanced-" in err
    assert ongoing(at) == []
    assert throttled_topics(run, at, "balanced") == []
