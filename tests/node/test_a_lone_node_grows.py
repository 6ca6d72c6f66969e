"""A node that was the only voter when it started becomes one of several, and then no voter."""

import os
import signal
from pathlib import Path

from rig.cluster_questions import active_controller, unfenced_brokers, until
from rig.operating.cluster import OperatedCluster

TOPIC = "orders"
SESSIONS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


def test_the_broker_of_a_removed_voter_keeps_its_session_and_serves(tmp_path: Path) -> None:
    with OperatedCluster(tmp_path, nodes=1, settings=SESSIONS) as cluster:
        cluster.start()
        cluster.done("topics", "create", TOPIC, "--partitions", "1", "--replication-factor", "1")
        cluster.add(2)
        cluster.add(3)
        cluster.add(4, votes=False)
        others = [cluster.addresses[number] for number in (2, 3)]
        cluster.done("cluster", "remove-controller", "1")
        until("another controller decides", lambda: active_controller(others) != 1)

        # Broker 4 falls silent later than broker 1 would have: the controller fences it after that.
        os.kill(cluster.nodes[4].pid, signal.SIGSTOP)
        until("the silent broker is fenced", lambda: 4 not in unfenced_brokers(others[0]))

        assert unfenced_brokers(others[0]) == {1, 2, 3}
        [described] = cluster.told("topics", "describe", TOPIC)
        assert [one["leader"] for one in described["partitions"]] == [1]
