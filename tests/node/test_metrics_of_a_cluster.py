"""Three nodes tell of a loss and of its end, each what it knows."""

import signal
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rig.cluster_questions import until
from rig.scraping import Scraped, scrape, url_in
from rig.served_cluster import ServedCluster

WAIT_SECONDS = 120
MANAGER = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
STATE = "kafka_server_raftmetrics_current_state"


class Watched:
    """All nodes of a cluster that run."""

    def __init__(self, cluster: ServedCluster) -> None:
        self._cluster = cluster

    def all(self) -> dict[int, Scraped]:
        running = {key: node for key, node in self._cluster.nodes.items() if node.running}
        return {key: scrape(url_in(node.logged())) for key, node in running.items()}

    def sum(self, name: str) -> float:
        return sum(told(name) for told in self.all().values())

    def of_topic(self, name: str, topic: str) -> float:
        """The sum over the nodes that tell it."""
        name = f"kafka_server_brokertopicmetrics_{name}"
        told = self.all().values()
        return sum(one.by(name, "topic").get(topic, 0) for one in told)

    def until_sum(self, name: str, wanted: float) -> None:
        until(f"{name} is {wanted}", lambda: self.sum(name) == wanted)


def roles(told: dict[int, Scraped]) -> list[str]:
    return sorted(labels["current_state"] for one in told.values() for labels, _ in one.all(STATE))


def active(told: dict[int, Scraped]) -> int:
    [one] = [key for key, one in told.items() if one(f"{CONTROLLER}activecontrollercount") == 1]
    return one


def test_a_killed_node_is_told_of_and_its_return_too(tmp_path: Path) -> None:
    with ServedCluster(
        tmp_path / "data",
        penstock_metrics_address="0",
        offsets_topic_num_partitions="3",
    ) as cluster:
        cluster.start()
        watched = Watched(cluster)
        settings: dict[str, str | int | float | bool] = {"bootstrap.servers": cluster.bootstrap}
        admin = AdminClient(settings)
        wanted = [
            NewTopic("orders", 6, 3),
            NewTopic("strict", 3, 3, config={"min.insync.replicas": "3"}),
            NewTopic("alone", 3, 1),
        ]
        for made in admin.create_topics(wanted).values():
            made.result(WAIT_SECONDS)
        producer = Producer({**settings, "acks": "all"})
        for number in range(60):
            producer.produce("orders", b"v", partition=number % 6)
        producer.flush()
        consumer = Consumer({**settings, "group.id": "slow"})
        offsets = [TopicPartition("orders", index, index) for index in range(6)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()
        before_the_loss(watched)
        told = watched.all()
        assert watched.of_topic("messagesin_total", "orders") == 60
        bytes_in = watched.of_topic("bytesin_total", "orders")
        assert watched.of_topic("replicationbytesin_total", "orders") == 2 * bytes_in
        assert watched.of_topic("replicationbytesout_total", "orders") == 2 * bytes_in
        lost = next(key for key in told if key != active(told))
        led = {
            key: sum(
                one("kafka_log_log_logendoffset", topic="alone", partition=labels["partition"]) >= 0
                for labels, _ in one.all("kafka_log_log_size")
                if labels["topic"] == "alone"
            )
            for key, one in told.items()
        }
        causes = elections_by_cause(told)
        elections = {key: one("penstock_leader_elections_total") for key, one in told.items()}
        leaders_lost = told[lost](f"{MANAGER}leadercount") - led[lost]

        cluster.nodes[lost].end(signal.SIGKILL)
        watched.until_sum(f"{MANAGER}underreplicatedpartitions", 12)
        told = watched.all()
        controller = told[active(told)]
        assert controller(f"{CONTROLLER}fencedbrokercount") == 1
        assert controller(f"{CONTROLLER}activebrokercount") == 2
        assert controller(f"{CONTROLLER}offlinepartitionscount") == led[lost] == 1
        assert watched.sum(f"{MANAGER}underminisrpartitioncount") == 3
        assert watched.sum(f"{MANAGER}atminisrpartitioncount") == 6 + 3 + 2  # alone: one is enough
        assert watched.sum(f"{MANAGER}isrshrinks_total") == 12
        for key, one in told.items():
            counted = one("penstock_leader_elections_total") - elections[key]
            assert counted == leaders_lost, key
        fenced = {**causes, "broker_fenced": causes["broker_fenced"] + leaders_lost}
        assert elections_by_cause(told) == fenced
        messages_in = watched.of_topic("messagesin_total", "orders")
        for number in range(30):
            producer.produce("orders", b"v", partition=number % 6)
        assert producer.flush(WAIT_SECONDS) == 0
        assert watched.of_topic("messagesin_total", "orders") == messages_in + 30

        cluster.start(lost)
        watched.until_sum(f"{MANAGER}underreplicatedpartitions", 0)
        assert watched.sum(f"{MANAGER}underminisrpartitioncount") == 0
        assert watched.sum(f"{MANAGER}isrexpands_total") == 12
        told = watched.all()
        assert told[active(told)](f"{CONTROLLER}fencedbrokercount") == 0
        assert told[active(told)](f"{CONTROLLER}offlinepartitionscount") == 0
        found = elections_by_cause(told)
        assert found["broker_unfenced"] == causes["broker_unfenced"] + led[lost]
        assert found["broker_fenced"] == fenced["broker_fenced"]
        uncleans = "kafka_controller_controllerstats_uncleanleaderelections_total"
        assert {one(uncleans) for one in told.values()} == {0}

        for key in cluster.nodes:
            if key != lost:
                cluster.nodes[key].end(signal.SIGKILL)
        until(
            "nobody is active",
            lambda: (
                watched.sum(f"{CONTROLLER}activecontrollercount") == 0
                and "leader" not in roles(watched.all())
            ),
        )


def elections_by_cause(told: dict[int, Scraped]) -> dict[str, float]:
    """As the active controller has counted them."""
    return told[active(told)].by("penstock_leader_elections_by_cause_total", "cause")


def before_the_loss(watched: Watched) -> None:
    watched.until_sum(f"{MANAGER}underreplicatedpartitions", 0)
    until(
        "all have everything",
        lambda: all(
            one("kafka_log_log_logendoffset", topic="orders", partition=str(index)) == 10
            for one in watched.all().values()
            for index in range(6)
        ),
    )
    told = watched.all()
    assert roles(told) == ["follower", "follower", "leader"]
    leader = active(told)
    assert {one("kafka_server_raftmetrics_current_leader") for one in told.values()} == {leader}
    assert set(told[leader].by("penstock_raft_replica_lag_records", "replica")) == {"1", "2", "3"}
    assert len({one("kafka_server_raftmetrics_current_epoch") for one in told.values()}) == 1
    assert watched.sum(f"{MANAGER}leadercount") == 6 + 3 + 3 + 3  # with those of offsets
    assert watched.sum(f"{MANAGER}partitioncount") == 3 * (6 + 3 + 3) + 3
    for key, one in told.items():
        others = {str(other) for other in told if other != key}
        assert set(one.by("penstock_follower_lag_records_max", "follower")) == others
        assert one(f"{CONTROLLER}globalpartitioncount") == 15
        assert one("penstock_group_lags_elsewhere") == 0
    # The group is told of by its coordinator, whoever leads the partitions.
    lags = {
        labels["partition"]: value
        for one in told.values()
        for labels, value in one.all("penstock_group_lag_records")
    }
    assert lags == {str(index): 10 - index for index in range(6)}
