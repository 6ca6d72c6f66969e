"""Every metric and label in the rules and in the dashboard is in a scrape of real nodes."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rig.cluster_questions import until
from rig.ops_files import Expression, expressions
from rig.promql import TARGET_LABELS, selected
from rig.running_node import RunningNode
from rig.scraping import Scraped, scrape, url_in
from rig.served_cluster import ServedCluster
from rig.tls_files import TlsFiles

WAIT_SECONDS = 120
Told = Mapping[str, frozenset[str]]  # the labels of each name


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Of three nodes with a group that lags and an open transaction, and of one node with TLS."""
    folder = tmp_path_factory.mktemp("told")
    with ServedCluster(
        folder / "data",
        penstock_metrics_address="0",
        offsets_topic_num_partitions="3",
        log_cleaner_backoff_ms="100",
    ) as cluster:
        cluster.start()
        client: dict[str, str | int | float | bool] = {"bootstrap.servers": cluster.bootstrap}
        admin = AdminClient(client)
        [made] = admin.create_topics([NewTopic("orders", 3, 3)]).values()
        made.result(WAIT_SECONDS)
        producer = Producer({**client, "transactional.id": "till"})
        producer.init_transactions(WAIT_SECONDS)
        producer.begin_transaction()
        for index in range(3):
            producer.produce("orders", b"v", partition=index)
        producer.flush()
        consumer = Consumer({**client, "group.id": "slow"})
        places = [TopicPartition("orders", index, 0) for index in range(3)]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()
        read_and_fail(client)
        urls = [url_in(node.logged()) for node in cluster.nodes.values()]
        scrapes: list[Scraped] = []

        def all_is_told() -> bool:
            scrapes[:] = [scrape(url) for url in urls]
            wanted = (
                "penstock_follower_lag_records_max",
                "penstock_group_lag_seconds",
                "penstock_compaction_dirty_bytes",
            )
            return all(any(any(one.all(name)) for one in scrapes) for name in wanted)

        until("followers and groups are told of", all_is_told)
        scrapes.append(scrape_of_tls_node(folder))
        yield labels_by_name(scrapes)
        producer.abort_transaction(WAIT_SECONDS)


def read_and_fail(client: dict[str, str | int | float | bool]) -> None:
    """A record is read, and a request refused."""
    reader = Consumer({**client, "group.id": "none", "isolation.level": "read_uncommitted"})
    reader.assign([TopicPartition("orders", 0, 0)])
    until("a record is read", lambda: reader.poll(1) is not None)
    reader.close()
    with pytest.raises(KafkaException):
        AdminClient(client).delete_topics(["nothing"])["nothing"].result(WAIT_SECONDS)


def scrape_of_tls_node(folder: Path) -> Scraped:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "penstock.metrics.address": "0",
        **TlsFiles(folder / "authority").node_settings(),
    }
    node = RunningNode(folder / "tls", settings)
    node.start()
    try:
        return scrape(f"http://{node.node.metrics_address}/metrics")
    finally:
        node.stop()


def labels_by_name(scrapes: Iterable[Scraped]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {"up": frozenset()}
    for one in scrapes:
        for family in one.families.values():
            for sample in family.samples:
                labels = found.get(sample.name, frozenset())
                found[sample.name] = labels | sample.labels.keys()
    return found


def faults(expression: Expression, told: Told) -> list[str]:
    """What Prometheus would silently answer with nothing."""
    found = []
    result: set[str] = set()
    for one in selected(expression.text):
        if one.name not in told:
            found.append(f"{expression.place}: no node tells {one.name}")
            continue
        known = told[one.name] | TARGET_LABELS
        result |= known if one.kept is None else one.kept
        found += [
            f"{expression.place}: {one.name} has no label {label}" for label in one.wanted - known
        ]
    found += [
        f"{expression.place}: no label {label} to show" for label in expression.shown - result
    ]
    return found


def test_every_metric_and_label_is_told(told: Told) -> None:
    every = expressions()
    assert len(every) > 40
    assert [fault for expression in every for fault in faults(expression, told)] == []


@pytest.mark.parametrize(
    ("text", "shown", "fault"),
    [
        ("penstock_group_lag_second > 300", "", "no node tells penstock_group_lag_second"),
        ("sum by (groups) (penstock_group_members)", "", "has no label groups"),
        ('penstock_group_members{topic="x"} > 0', "", "has no label topic"),
        ("sum by (job) (penstock_group_members)", "group", "no label group to show"),
    ],
)
def test_a_wrong_name_is_found(told: Told, text: str, shown: str, fault: str) -> None:
    planted = Expression(place="planted", text=text, shown=frozenset(shown.split()))
    [found] = faults(planted, told)
    assert fault in found
