"""A killed leader, a rebalance and a fenced zombie can be explained from the logs alone.

Three nodes as processes, with JSON logs. All that the tests know of what happened is compared with
what the files say of it: who, when and why.
"""

import signal
from collections.abc import Collection, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.metadata import MetadataRequest
from rig.clients.confluent import QUIET
from rig.cluster_questions import until
from rig.dialogue import Dialogue
from rig.failover.cluster import BRISK_SESSIONS, ReplicatedCluster
from rig.failover.questions import create_replicated, leader_of, partition_states
from rig.json_logs import Line, PenstockWithJsonLogs, events, lines_of
from rig.members.member import GroupOfMembers, python_member
from rig.transactional.confluent import ConfluentTransactions
from rig.transactional.interface import Fenced

ORDERS = "orders"
PARTITIONS = 2
SESSION_MS = "3000"
CLASSIC_TIMING = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": "300"}
SETTINGS = {
    **BRISK_SESSIONS,
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    software = PenstockWithJsonLogs("debug")
    with ReplicatedCluster(software, tmp_path / "cluster", settings=SETTINGS) as made:
        made.start()
        create_replicated(made, ORDERS, partitions=PARTITIONS)
        yield made


def logged(cluster: ReplicatedCluster) -> list[Line]:
    return lines_of(node.log for node in cluster.nodes.values())


def until_told(cluster: ReplicatedCluster, name: str, **fields: object) -> Line:
    """The last such line, once there is one."""
    until(f"{name} {fields} is logged", lambda: bool(events(logged(cluster), name, **fields)))
    return events(logged(cluster), name, **fields)[-1]


def now() -> str:
    """As the logs write times."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def test_killed_leader_is_explained(cluster: ReplicatedCluster) -> None:
    old_leader = leader_of(cluster, ORDERS, 0)
    began = now()
    cluster.nodes[old_leader].end(signal.SIGKILL)
    until("another leads", lambda: leader_of(cluster, ORDERS, 0) != old_leader)
    new_leader = leader_of(cluster, ORDERS, 0)

    elected = until_told(
        cluster, "partition.leader_changed", partition=f"{ORDERS}-0", old_leader=old_leader
    )
    # Who leads now, since when, and why.
    assert elected["leader"] == new_leader
    assert elected["leader_epoch"] == 1
    assert elected["reason"] == "broker_fenced"
    assert elected["broker"] == old_leader
    assert elected["time"] >= began
    assert old_leader not in elected["isr"]
    # Why that broker was fenced, by whom: the node that wrote the line was the active controller.
    controller = elected["node"]
    [fenced] = events(logged(cluster), "broker.fenced", broker=old_leader)
    assert fenced["node"] == controller != old_leader
    assert fenced["reason"] in ("connection_refused", "session_expired")
    assert fenced["level"] == "warning"
    assert events(logged(cluster), "controller.active", node=controller)
    # The killed one told of no stop: nobody asked it to.
    assert not events(logged(cluster), "node.stopping", node=old_leader)
    # Who left the in-sync set.
    [left] = events(logged(cluster), "partition.isr_shrunk", partition=f"{ORDERS}-0")
    assert left["left"] == [old_leader]
    assert left["reason"] == "broker_fenced"
    # A clean stop is another story.
    stopped = next(number for number in cluster.nodes if number not in (old_leader, controller))
    cluster.nodes[old_leader].begin()
    cluster.nodes[old_leader].until_logged('"node.ready"', times=2)
    until_told(cluster, "partition.isr_expanded", partition=f"{ORDERS}-0", joined=[old_leader])
    assert cluster.nodes[stopped].end() == 0
    lines = logged(cluster)
    assert events(lines, "node.stopping", node=stopped, reason="signal")
    assert events(lines, "node.stopped", node=stopped)
    [gone] = events(lines, "broker.fenced", broker=stopped)
    assert gone["reason"] == "controlled_shutdown"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalance_is_explained(cluster: ReplicatedCluster, protocol: str) -> None:
    group = GroupOfMembers(
        bootstrap=cluster.bootstrap, topic=ORDERS, partitions=PARTITIONS, group=f"{protocol}-group"
    )
    timing = CLASSIC_TIMING if protocol == "classic" else {}
    try:
        first = group.start(
            python_member("confluent_member"), client_id="first", group_protocol=protocol, **timing
        )
        group.await_shared_by(first)
        joined_after = now()
        second = group.start(
            python_member("confluent_member"), client_id="second", group_protocol=protocol, **timing
        )
        group.await_shared_by(first, second)
        killed_at = now()
        second.kill()
        group.await_shared_by(first)
        first.leave()
        until_told(cluster, "group.rebalance", group=group.name, cause="member_left")
    finally:
        group.end()
    told = events(logged(cluster), "group.rebalance", group=group.name)
    story = [(line["cause"], line["client_id"]) for line in told]
    assert [one for one in story if one[0] != "leader_rejoined"] == [
        ("member_joined", "first"),
        ("member_joined", "second"),
        ("session_timed_out", "second"),
        ("member_left", "first"),
    ]
    [joined] = [line for line in told if line["cause"] == "member_joined"][1:]
    [lost] = [line for line in told if line["cause"] == "session_timed_out"]
    # The same member: it came, and was not heard of any more.
    assert joined["member"] == lost["member"]
    assert joined_after <= joined["time"] <= killed_at <= lost["time"]
    assert lost["generation"] >= joined["generation"]
    assert lost["members"] == 1
    assert {line["protocol"] for line in told} == {protocol}


def test_fenced_zombie_is_explained(cluster: ReplicatedCluster) -> None:
    clients = ConfluentTransactions()
    zombie = clients.producer(cluster.bootstrap, "payments")
    zombie.begin()
    zombie.send(ORDERS, b"1")
    taken_over_after = now()
    heir = clients.producer(cluster.bootstrap, "payments")
    with pytest.raises(Fenced):
        zombie.commit()
    zombie.close()
    heir.begin()
    heir.send(ORDERS, b"2")
    heir.commit()
    heir.close()

    fenced = until_told(cluster, "producer.fenced", transactional_id="payments")
    [aborted] = events(logged(cluster), "transaction.aborted", transactional_id="payments")
    took_over = until_told(cluster, "producer.took_over", transactional_id="payments")
    # Whose transaction was aborted, when and why.
    assert aborted["reason"] == "another_producer"
    assert aborted["time"] >= taken_over_after
    # Who was refused: the same producer, in the epoch of the aborted transaction.
    assert fenced["producer_id"] == aborted["producer_id"]
    assert fenced["epoch"] == aborted["epoch"]
    assert fenced["current_epoch"] > fenced["epoch"]
    assert fenced["error"] in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
    assert fenced["api"] == "EndTxn"
    assert fenced["client_id"] == "rdkafka"
    assert isinstance(fenced["correlation_id"], int)
    # And who holds the id now.
    assert took_over["producer_id"] == fenced["current_producer_id"]
    assert took_over["epoch"] >= fenced["current_epoch"]
    assert {fenced["node"], aborted["node"], took_over["node"]} == {fenced["node"]}


def test_refused_writes_are_explained(cluster: ReplicatedCluster) -> None:
    create_replicated(cluster, "pair", partitions=1, replicas=2)
    state = partition_states(next(iter(cluster.addresses.values())), "pair")[0]
    [follower] = state.in_sync - {state.leader}
    cluster.nodes[follower].end(signal.SIGKILL)
    shrunk = until_told(cluster, "partition.isr_shrunk", partition="pair-0")
    # Who is missing, and that writes with acks=all are refused from here on.
    assert shrunk["left"] == [follower]
    assert shrunk["isr"] == [state.leader]
    assert shrunk["min_insync"] == 2 > len(shrunk["isr"])
    failed: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "log_level": QUIET,
            "client.id": "till-7",
            "retries": 0,
            "acks": "all",
        }
    )
    producer.produce("pair", b"1", on_delivery=lambda error, _: failed.append(error))
    producer.flush(60)
    assert [error.code() for error in failed] == [KafkaError.NOT_ENOUGH_REPLICAS]
    refused = until_told(cluster, "produce.refused", error="NOT_ENOUGH_REPLICAS")
    assert refused["node"] == state.leader
    assert refused["partition"] == "pair-0"
    assert "required: 2" in refused["reason"]
    # And whose they were.
    assert refused["client_id"] == "till-7"
    assert isinstance(refused["correlation_id"], int)


def test_hostile_names_are_one_harmless_line(cluster: ReplicatedCluster) -> None:
    name = 'evil\x1b[2J\n{"event": "forged"} \x9b31m\u202e'
    settings = {"bootstrap.servers": cluster.bootstrap, "log_level": QUIET, "client.id": name}
    consumer = Consumer({**settings, "group.id": name})
    try:
        consumer.subscribe([ORDERS])
        until("it has joined", lambda: consumer.poll(0.1) is None and bool(consumer.assignment()))
    finally:
        consumer.close()
    told = until_told(cluster, "group.rebalance", cause="member_left")
    assert told["group"] == name
    assert told["client_id"] == name
    for node in cluster.nodes.values():
        for line in node.logged().split("\n"):
            assert line.isprintable()


def create_at(cluster: ReplicatedCluster, number: int, *, correlation_id: int) -> None:
    """A topic is asked for at one node, in a request with this correlation id."""
    wanted = CreatableTopic(name=f"made-{number}", num_partitions=1, replication_factor=1)
    with closing(Dialogue(cluster.addresses[number], "")) as dialogue:
        for _ in range(correlation_id - 1):
            dialogue.exchange(MetadataRequest(topics=[]), version=12)
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
        [created] = dialogue.exchange(request, version=7).topics
    assert created.error_code == 0, created


def test_forwarded_request_is_followed_by_its_correlation(cluster: ReplicatedCluster) -> None:
    for number in cluster.nodes:
        create_at(cluster, number, correlation_id=number + 1)
    lines = logged(cluster)
    asked = {number + 1: number for number in cluster.nodes}
    sent = [line for line in lines if is_create(line, "request.forwarded", asked)]
    received = [line for line in lines if is_create(line, "request.received", asked)]
    # One of the three nodes is the active controller, and forwards nothing.
    assert len(sent) == len(received) == len(cluster.nodes) - 1
    for line, other in zip(
        sorted(sent, key=correlation), sorted(received, key=correlation), strict=True
    ):
        assert correlation(line) == correlation(other)
        assert line["node"] == asked[correlation(line)]
        assert line["to"] == other["node"] != line["node"]
        assert line["client_id"] == other["client_id"] == "dialogue"
        assert line["client_host"] == other["client_host"]


def is_create(line: Line, event: str, asked: Collection[int]) -> bool:
    is_one = line["event"] == event and line["api"] == "CreateTopics"
    return is_one and line["correlation_id"] in asked


def correlation(line: Line) -> int:
    found: int = line["correlation_id"]
    return found
