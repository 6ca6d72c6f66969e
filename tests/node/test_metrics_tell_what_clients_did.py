"""Every value of a node is what clients did, one by one."""

import contextlib
import resource
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewTopic
from cryptography import x509

from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.wire.messages.sync_group import SyncGroupRequest
from penstock.world.clock import RealClock
from rig.cluster_questions import until
from rig.dialogue import Dialogue
from rig.running_node import RunningNode, running_node
from rig.scraping import Scraped, scrape, scrape_open_metrics, scrape_until, url_in
from rig.served_cluster import PENSTOCK, NodeProcess
from rig.tls_files import TlsFiles

WAIT_SECONDS = 60
Settings = dict[str, str | int | float | bool]
CLASSIC_STATES = ("empty", "preparingrebalance", "completingrebalance", "stable")
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with running_node(
        tmp_path,
        penstock_metrics_address="127.0.0.1:0",
        offsets_topic_num_partitions="2",
        transaction_state_log_num_partitions="2",
        group_initial_rebalance_delay_ms="0",
    ) as running:
        yield running


def url_of(node: RunningNode) -> str:
    return f"http://{node.node.metrics_address}/metrics"


def settings_of(node: RunningNode) -> Settings:
    return {"bootstrap.servers": node.bootstrap}


def create(node: RunningNode, name: str, partitions: int) -> None:
    admin = AdminClient(settings_of(node))
    admin.create_topics([NewTopic(name, partitions)])[name].result(WAIT_SECONDS)


def produce(node: RunningNode, topic: str, count: int, *, ago_ms: int = 0) -> None:
    """To partition 0, one batch for each record, the first so long ago and each a second later."""
    producer = Producer({**settings_of(node), "linger.ms": 0})
    first_ms = time.time_ns() // 1_000_000 - ago_ms
    for number in range(count):
        producer.produce(topic, b"v", partition=0, timestamp=first_ms + number * 1_000)
        producer.flush()


def test_a_node_tells_its_time(node: RunningNode) -> None:
    before_ms = RealClock().now_ms()
    told_ms = round(scrape(url_of(node))("penstock_node_time_seconds") * 1_000)
    assert before_ms <= told_ms <= RealClock().now_ms()


def test_a_new_node_tells_who_it_is(node: RunningNode) -> None:
    told = scrape(url_of(node))
    cluster = AdminClient(settings_of(node)).list_topics(timeout=WAIT_SECONDS)
    [(info, one)] = told.all("penstock_node_info")
    assert one == 1
    assert (info["node_id"], info["cluster_id"]) == ("1", cluster.cluster_id)
    assert info["roles"] == "broker,controller"
    assert told("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert told("kafka_server_kafkaserver_brokerstate") == 3
    assert told("kafka_server_raftmetrics_current_state", current_state="leader") == 1
    assert told("kafka_server_raftmetrics_current_leader") == 1
    assert told("kafka_server_raftmetrics_number_of_voters") == 1
    assert told.by("penstock_raft_replica_lag_records", "replica") == {"1": 0}
    end = told("kafka_log_log_logendoffset", topic="__cluster_metadata", partition="0")
    assert told("kafka_server_raftmetrics_log_end_offset") == end
    assert told("kafka_server_raftmetrics_high_watermark") == end
    assert told("kafka_server_brokermetadatametrics_last_applied_record_offset") == end - 1
    assert told("kafka_controller_kafkacontroller_activebrokercount") == 1
    assert told("kafka_controller_kafkacontroller_fencedbrokercount") == 0


def test_records_and_bytes_are_those_of_the_log(node: RunningNode, tmp_path: Path) -> None:
    create(node, "orders", 3)
    before = scrape(url_of(node))
    produce(node, "orders", 7)
    told = scrape(url_of(node))
    at = {"topic": "orders", "partition": "0"}
    assert before("kafka_log_log_logendoffset", **at) == 0
    assert told("kafka_log_log_logendoffset", **at) == 7
    assert told("kafka_log_log_logendoffset", topic="orders", partition="1") == 0
    [log] = (tmp_path / "node-1" / "orders-0").glob("*.log")
    assert told("kafka_log_log_size", **at) == log.stat().st_size > 0
    directory = str(tmp_path / "node-1")
    logs = [path.stat().st_size for path in Path(directory).rglob("*.log")]
    assert told("penstock_log_directory_used_bytes", directory=directory) == sum(logs)
    size = shutil.disk_usage(directory).total
    assert told("penstock_log_directory_total_bytes", directory=directory) == size
    assert 0 < told("penstock_log_directory_free_bytes", directory=directory) < size
    assert told("kafka_log_logmanager_offlinelogdirectorycount") == 0
    admin = AdminClient(settings_of(node))
    deleted = admin.delete_records([TopicPartition("orders", 0, 4)])
    [done] = deleted.values()
    done.result(WAIT_SECONDS)
    assert scrape(url_of(node))("kafka_log_log_logstartoffset", **at) == 4


def test_partitions_are_counted(node: RunningNode) -> None:
    create(node, "orders", 3)
    create(node, "bills", 2)
    told = scrape(url_of(node))
    assert told("kafka_server_replicamanager_partitioncount") == 5
    assert told("kafka_server_replicamanager_leadercount") == 5
    assert told("kafka_controller_kafkacontroller_globaltopiccount") == 2
    assert told("kafka_controller_kafkacontroller_globalpartitioncount") == 5
    assert told("kafka_server_replicamanager_atminisrpartitioncount") == 5  # of one replica
    for none in (
        "kafka_server_replicamanager_underreplicatedpartitions",
        "kafka_server_replicamanager_underminisrpartitioncount",
        "kafka_server_replicamanager_offlinereplicacount",
        "kafka_server_replicamanager_reassigningpartitions",
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    ):
        assert told(none) == 0, none
    admin = AdminClient(settings_of(node))
    admin.delete_topics(["bills"])["bills"].result(WAIT_SECONDS)
    told = scrape(url_of(node))
    assert told("kafka_server_replicamanager_leadercount") == 3
    assert {labels["topic"] for labels, _ in told.all("kafka_log_log_size")} == {
        "orders",
        "__cluster_metadata",
    }


def test_lag_of_groups_is_told_in_records_and_seconds(node: RunningNode) -> None:
    create(node, "orders", 2)
    began = time.time()
    produce(node, "orders", 10, ago_ms=60_000)
    for group, offset in (("slow", 2), ("done", 10)):
        consumer = Consumer({**settings_of(node), "group.id": group})
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
        consumer.close()
    told = scrape(url_of(node))
    passed = time.time() - began
    slow = {"group": "slow", "topic": "orders", "partition": "0"}
    assert told("penstock_group_committed_offset", **slow) == 2
    assert told("penstock_group_lag_records", **slow) == 8
    # Its first unread record is of two seconds after the first.
    assert 57.9 <= told("penstock_group_lag_seconds", **slow) <= 58.1 + passed
    done = {**slow, "group": "done"}
    assert told("penstock_group_lag_records", **done) == 0
    assert told("penstock_group_lag_seconds", **done) == 0
    assert told("kafka_coordinator_group_groupmetadatamanager_numoffsets") == 2
    assert told("kafka_coordinator_group_groupmetadatamanager_numgroups") == 2
    assert told("kafka_coordinator_group_groupmetadatamanager_numgroupsempty") == 2
    assert told("penstock_group_lags_elsewhere") == 0
    assert told("penstock_group_lags_left_out") == 0
    assert told.by("penstock_group_members", "group") == {"slow": 0, "done": 0}


def test_records_that_were_deleted_before_a_group_has_read_them_are_missed(
    node: RunningNode,
) -> None:
    create(node, "orders", 1)
    produce(node, "orders", 7)
    consumer = Consumer({**settings_of(node), "group.id": "slow"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    missed = "penstock_group_missed_records"
    assert not list(scrape(url_of(node)).all(missed))
    admin = AdminClient(settings_of(node))
    [deleted] = admin.delete_records([TopicPartition("orders", 0, 5)]).values()
    deleted.result(WAIT_SECONDS)
    told = scrape(url_of(node))
    slow = {"group": "slow", "topic": "orders", "partition": "0"}
    assert told(missed, **slow) == 3
    assert told("penstock_group_lag_records", **slow) == 2  # those that it can read
    consumer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
    consumer.close()
    assert not list(scrape(url_of(node)).all(missed))


def classic_states(node: RunningNode) -> dict[str, float]:
    """How many groups of the classic protocol are in each state, if any are."""
    told = scrape(url_of(node))
    prefix = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    return {state: count for state in CLASSIC_STATES if (count := told(f"{prefix}{state}"))}


def test_a_rebalance_of_a_classic_group_is_told_while_it_lasts(node: RunningNode) -> None:
    create(node, "orders", 1)
    consumer = Consumer({**settings_of(node), "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    consumer.close()
    assert classic_states(node) == {"empty": 1}
    first, second = (Dialogue(node.bootstrap, "orders") for _ in range(2))

    def join(member_id: str = "") -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id="readers",
            session_timeout_ms=WAIT_SECONDS * 1_000,
            rebalance_timeout_ms=WAIT_SECONDS * 1_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )

    def sync(joined: JoinGroupResponse) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id="readers", generation_id=joined.generation_id, member_id=joined.member_id
        )

    joined = first.exchange(join(), version=3)
    assert classic_states(node) == {"completingrebalance": 1}
    first.exchange(sync(joined), version=3)
    assert classic_states(node) == {"stable": 1}
    other = join()
    second.send(other, version=3)  # answered when the first one has joined again
    until("it rebalances", lambda: classic_states(node) == {"preparingrebalance": 1})
    joined = first.exchange(join(joined.member_id), version=3)
    second.reply_to(other, version=3)
    assert classic_states(node) == {"completingrebalance": 1}
    first.exchange(sync(joined), version=3)
    assert classic_states(node) == {"stable": 1}
    first.close()
    second.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_and_states_of_groups_are_told(node: RunningNode, protocol: str) -> None:
    create(node, "orders", 2)
    consumers = [
        Consumer({**settings_of(node), "group.id": "readers", "group.protocol": protocol})
        for _ in range(2)
    ]
    for one in consumers:
        one.subscribe(["orders"])

    def is_stable(told: Scraped) -> bool:
        for one in consumers:
            one.poll(0.05)
        if protocol == "classic":
            stable = told("kafka_coordinator_group_groupmetadatamanager_numgroupsstable")
        else:
            name = "kafka_server_group_coordinator_metrics_consumer_group_count"
            stable = told(name, state="Stable")
        return stable == 1 and told.by("penstock_group_members", "group") == {"readers": 2}

    told = scrape_until(url_of(node), is_stable)
    by_protocol = told.by("kafka_server_group_coordinator_metrics_group_count", "protocol")
    assert by_protocol == {"classic": protocol == "classic", "consumer": protocol == "consumer"}
    for one in consumers:
        one.close()


def test_an_open_transaction_is_told_until_it_ends(node: RunningNode) -> None:
    create(node, "orders", 2)
    produce(node, "orders", 1)
    assert scrape(url_of(node))("kafka_server_replicamanager_produceridcount") == 0
    producer = Producer({**settings_of(node), "transactional.id": "till"})
    producer.init_transactions(WAIT_SECONDS)
    began = time.time()
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce("orders", b"v", partition=partition)
    producer.flush()
    told = scrape(url_of(node))
    passed = time.time() - began
    assert told("penstock_transactions_open") == 1
    assert 0 <= told("penstock_transaction_age_seconds_max") <= passed + 0.1
    assert told("penstock_partitions_with_open_transactions") == 2
    assert told("kafka_server_replicamanager_produceridcount") == 2
    by_state = dict.fromkeys(STATES, 0)
    assert told.by("penstock_transactional_ids", "state") == {**by_state, "Ongoing": 1}
    producer.commit_transaction(WAIT_SECONDS)
    told = scrape_until(
        url_of(node), lambda one: one("penstock_transactional_ids", state="CompleteCommit") == 1
    )
    assert told("penstock_transactions_open") == 0
    assert told("penstock_transaction_age_seconds_max") == 0
    assert told("penstock_partitions_with_open_transactions") == 0


def test_connections_are_counted_by_listener(tmp_path: Path) -> None:
    with running_node(
        tmp_path,
        listeners="ONE://127.0.0.1:0,TWO://127.0.0.1:0",
        listener_security_protocol_map="ONE:PLAINTEXT,TWO:PLAINTEXT",
        inter_broker_listener_name="ONE",
        penstock_metrics_address="0",
    ) as node:
        addresses = node.node.addresses_by_listener
        name = ("kafka_server_socket_server_metrics_connection_count", "listener")
        with contextlib.ExitStack() as opened:
            for listener in ("TWO", "TWO", "ONE", "TWO"):
                at = addresses[listener]
                opened.enter_context(socket.create_connection((at.host, at.port)))
            told = scrape_until(url_of(node), lambda one: sum(one.by(*name).values()) == 4)
            assert told.by(*name) == {"ONE": 1, "TWO": 3}
        told = scrape_until(url_of(node), lambda one: sum(one.by(*name).values()) == 0)
        assert told.by(*name) == {"ONE": 0, "TWO": 0}


def test_a_directory_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    bad.write_text("this is no directory")
    with running_node(tmp_path, log_dirs=f"{good},{bad}", penstock_metrics_address="0") as node:
        told = scrape(url_of(node))
    assert told("kafka_log_logmanager_offlinelogdirectorycount") == 1
    assert set(told.by("penstock_log_directory_used_bytes", "directory")) == {str(good)}


def test_a_throttle_is_told_while_there_is_one(node: RunningNode) -> None:
    name = "penstock_replication_throttle_bytes_per_second"
    assert not list(scrape(url_of(node)).all(name))
    entry = ConfigEntry(
        "leader.replication.throttled.rate",
        "12345",
        incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET,
    )
    resource_one = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient(settings_of(node))
    [altered] = admin.incremental_alter_configs([resource_one]).values()
    altered.result(WAIT_SECONDS)
    assert scrape(url_of(node)).by(name, "role") == {"leader": 12345}


def test_the_certificate_of_a_listener_is_told_and_followed(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path / "authority")
    settings = files.node_settings()
    node = RunningNode(
        tmp_path / "data",
        {
            "listeners": "SSL://127.0.0.1:0",
            "penstock.metrics.address": "0",
            **settings,
        },
    )
    node.start()
    try:
        text = Path(settings["ssl.keystore.location"]).read_bytes()
        wanted = x509.load_pem_x509_certificates(text)[0].not_valid_after_utc.timestamp()
        name = "penstock_certificate_expiry_timestamp_seconds"
        assert scrape(url_of(node)).by(name, "listener") == {"SSL": wanted}
        Path(settings["ssl.keystore.location"]).write_text("no certificate any more")
        assert scrape(url_of(node)).by(name, "listener") == {"SSL": wanted}
    finally:
        node.stop()


def test_the_process_tells_of_itself(tmp_path: Path) -> None:
    command = [PENSTOCK, "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    process = NodeProcess("serve", [*command, "--metrics", "0"], tmp_path / "log")
    process.begin()
    try:
        process.until_logged("penstock ready: ")
        told = scrape(url_in(process.logged()))
        seen = psutil.Process(process.pid)
        assert abs(told("process_start_time_seconds") - seen.create_time()) < 2
        assert told("process_max_fds") == seen.rlimit(resource.RLIMIT_NOFILE)[0]
        assert 0 < told("process_open_fds") <= seen.num_fds() + 2
        assert told("process_cpu_seconds_total") > 0
        assert told("process_resident_memory_bytes") > 10_000_000
        assert told("python_gc_collections_total", generation="2") >= 1
        lags = scrape_until(
            url_in(process.logged()), lambda one: one("penstock_event_loop_lag_seconds_count") > 3
        )
        count = lags("penstock_event_loop_lag_seconds_count")
        assert lags("penstock_event_loop_lag_seconds_bucket", le="+Inf") == count
    finally:
        assert process.end() == 0


def test_hostile_names_are_told_as_they_are(node: RunningNode) -> None:
    create(node, "orders", 1)
    consumer = Consumer({**settings_of(node), "group.id": "plain"})  # makes the topic of offsets
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    consumer.close()
    names = ['a"} 1\nfake 2', "back\\slash\\n", "ümlaut\u2028", "{}#,=", " "]
    dialogue = Dialogue(node.bootstrap, "orders")
    for name in names:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=0, committed_metadata=""
        )
        topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
        request = OffsetCommitRequest(group_id=name, topics=[topic])
        [answered] = dialogue.exchange(request, version=9).topics
        assert answered.partitions[0].error_code == 0
    dialogue.close()
    for told in (scrape(url_of(node)), scrape_open_metrics(url_of(node))):
        assert set(told.by("penstock_group_members", "group")) == {"plain", *names}
        assert "fake" not in told.families


def test_both_formats_tell_the_same(node: RunningNode) -> None:
    create(node, "orders", 2)
    plain, open_metrics = scrape(url_of(node)), scrape_open_metrics(url_of(node))
    assert set(plain.families) == set(open_metrics.families)
    for name in ("kafka_log_log_size", "penstock_leader_elections_total"):
        assert list(plain.all(name)) == list(open_metrics.all(name)), name
