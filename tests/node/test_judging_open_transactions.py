"""The ordeals find open transactions, by their coordinators and by the partitions themselves."""

from pathlib import Path

from confluent_kafka import Producer

from rig.clients.confluent import QUIET
from rig.cluster_questions import until
from rig.failover.cluster import PenstockSoftware, ReplicatedCluster
from rig.failover.killed_node import open_transactions
from rig.failover.questions import create_replicated

TOPIC = "orders"
TRANSACTIONAL_ID = "cashier"


def test_an_open_transaction_is_found_at_its_coordinator_and_in_its_partition(
    tmp_path: Path,
) -> None:
    with ReplicatedCluster(PenstockSoftware(), tmp_path) as cluster:
        cluster.start()
        create_replicated(cluster, TOPIC, partitions=2)
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "transactional.id": TRANSACTIONAL_ID,
                "log_level": QUIET,
            }
        )
        producer.init_transactions()
        until("no transaction is open", lambda: not open_transactions(cluster))
        producer.begin_transaction()
        producer.produce(TOPIC, b"an umbrella", partition=1)
        producer.flush()
        assert open_transactions(cluster).keys() == {TRANSACTIONAL_ID, f"{TOPIC}-1"}
        producer.commit_transaction()
        until("no transaction is open", lambda: not open_transactions(cluster))
