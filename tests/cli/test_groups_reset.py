"""`penstock groups reset-offsets` on a cluster that has lost a partition's only replica."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import TopicPartition

from penstock.client.admin import group_reset
from penstock.testing import Broker, running_broker
from rig.clients.polling import commit
from rig.cluster_questions import until
from rig.command import Outcome
from rig.reassigning import create_on

Run = Callable[..., Outcome]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(group_reset, "PATIENCE_MS", 1_000)
    with running_broker(nodes=3) as broker:
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", broker.bootstrap)
        yield broker


def test_a_group_is_not_reset_in_part_when_a_partition_has_no_leader(
    run: Run, cluster: Broker
) -> None:
    create_on(cluster.nodes[1], "orders", [[1], [3]], {"min.insync.replicas": "1"})
    for partition in (0, 1):
        cluster.produce("orders", [b"a", b"b"], partition=partition)
    places = [TopicPartition("orders", 0, 2), TopicPartition("orders", 1, 2)]
    commit(cluster.bootstrap, "billing", places)
    cluster.kill(3)

    def leaders() -> list[object]:
        [described] = run("topics describe orders --json").json()
        return [one["leader"] for one in described["partitions"]]

    until("partition 1 has no leader", lambda: leaders() == [1, None])
    outcome = run("groups reset-offsets billing --all-topics --to-earliest --execute")
    assert (outcome.status, outcome.err) == (
        1,
        "penstock: orders-1: no leader told its offsets within 1000 ms\n",
    )
    [described] = run("groups describe billing --json").json()
    assert [one["committed"] for one in described["partitions"]] == [2, 2]
