"""A list of transactions is whole, or it is waited for, while coordinators move between nodes."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.client.admin.transaction_listing import Wanted, list_transactions
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork
from rig.clients.confluent import QUIET
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware, ReplicatedCluster
from rig.failover.questions import create_replicated, leader_of, partition_states

IDS = [f"shop-{number}" for number in range(6)]
TOPIC = "orders"
LOG = "__transaction_state"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    settings = {**BRISK_SESSIONS, "transaction.state.log.num.partitions": "6"}
    with ReplicatedCluster(PenstockSoftware(), tmp_path, settings=settings) as made:
        made.start()
        create_replicated(made, TOPIC, partitions=1)
        yield made


def test_every_open_transaction_is_listed_at_once_after_a_coordinator_was_killed(
    cluster: ReplicatedCluster,
) -> None:
    producers = [begun(cluster.bootstrap, name) for name in IDS]
    assert listed(cluster.bootstrap) == IDS
    for partition in range(len(partition_states(cluster.addresses[1], LOG))):
        coordinator = leader_of(cluster, LOG, partition)
        cluster.nodes[coordinator].end(signal.SIGKILL)
        assert listed(cluster.bootstrap) == IDS
        cluster.start(coordinator)
        assert listed(cluster.bootstrap) == IDS
    for producer in producers:
        producer.abort_transaction(60)


def begun(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(TOPIC, b"one")
    assert producer.flush(60) == 0
    return producer


def listed(bootstrap: str) -> list[str]:
    """Ids with an open transaction, as a client finds them that has just come."""

    async def ask() -> list[str]:
        async with Cluster(TcpNetwork(), RealClock(), parse_addresses(bootstrap)) as cluster:
            found = await list_transactions(cluster, Wanted(states=("Ongoing",)))
            return [one.transactional_id for one in found]

    return asyncio.run(ask())
