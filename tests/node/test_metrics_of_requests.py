"""Requests, errors and times by API are those of what clients have asked, one by one."""

import json
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.api import ApiKey
from penstock.wire.header import encode_request
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.fetch import FetchPartition
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.heartbeat import HeartbeatRequest
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from rig.data_requests import fetch_request, produce_request
from rig.dialogue import Dialogue
from rig.running_node import RunningNode, running_node
from rig.sasl import sasl_listener
from rig.scraping import Scraped, scrape, scrape_until

WAIT_SECONDS = 60
PREFIX = "kafka_network_requestmetrics_"
REQUESTS = f"{PREFIX}requests_total"
ERRORS = f"{PREFIX}errors_total"
PARTS = ("requestqueuetimems", "localtimems", "remotetimems", "responsesendtimems")
TOTAL = "totaltimems"
SAMPLED_EVERY = 64
# The client leaves its first connection out of what it says, which asks for these.
NOT_ALL_SAID = ("ApiVersion", "ApiVersions", "Metadata")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with running_node(
        tmp_path, penstock_metrics_address="0", transaction_state_log_num_partitions="2"
    ) as running:
        yield running


@pytest.fixture
def dialogue(node: RunningNode) -> Iterator[Dialogue]:
    made = Dialogue(node.bootstrap, "orders")
    made.create_topic(partitions=2)
    yield made
    made.close()


def told_by(node: RunningNode) -> Scraped:
    return scrape(f"http://{node.node.metrics_address}/metrics")


def batch() -> memoryview:
    return memoryview(build_batch([Record(b"key", b"value", timestamp_ms=1_700_000_000_000)]))


def errors(told: Scraped) -> dict[tuple[str, str], float]:
    return {(labels["request"], labels["error"]): count for labels, count in told.all(ERRORS)}


def timed(told: Scraped, part: str, request: str) -> tuple[float, float]:
    """How many, and how long all of them took, in milliseconds."""
    count = told(f"{PREFIX}{part}_count", request=request)
    assert told(f"{PREFIX}{part}_bucket", request=request, le="+Inf") == count
    return count, told(f"{PREFIX}{part}_sum", request=request)


def assert_parts_add_up(told: Scraped, request: str) -> None:
    count, total_ms = timed(told, TOTAL, request)
    parts = [timed(told, part, request) for part in PARTS]
    assert {one for one, _ in parts} == {count}
    assert round(sum(took_ms for _, took_ms in parts), 3) == round(total_ms, 3)


def test_requests_are_counted_one_by_one(node: RunningNode, dialogue: Dialogue) -> None:
    before = told_by(node).by(REQUESTS, "request")
    hello = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    for _ in range(5):
        dialogue.exchange(hello, version=4)
    for _ in range(3):
        dialogue.exchange(MetadataRequest(), version=12)
    for _ in range(SAMPLED_EVERY * 2 + 1):
        dialogue.exchange(produce_request("orders", batch()), version=9)
    told = told_by(node)
    after = told.by(REQUESTS, "request")
    produced = SAMPLED_EVERY * 2 + 1
    assert after == {**before, "ApiVersions": 5, "Metadata": 3, "Produce": produced}
    assert timed(told, TOTAL, "ApiVersions")[0] == 5
    assert timed(told, TOTAL, "Metadata")[0] == 3
    assert timed(told, TOTAL, "Produce")[0] == 3  # the first, the 65th and the 129th
    for request in after:
        assert_parts_add_up(told, request)
    assert not errors(told)


def test_requests_of_a_real_client_are_those_that_it_says_it_sent(node: RunningNode) -> None:
    # The last push of the first client would come after its end, and is not said by the second.
    settings = {"bootstrap.servers": node.bootstrap, "enable.metrics.push": False}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("orders", 2)])["orders"].result(WAIT_SECONDS)
    del admin
    sent: list[Counter[str]] = []

    def note(statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        sent.append(sum((Counter(one["req"]) for one in brokers), Counter()))
        for name in NOT_ALL_SAID:
            sent[-1].pop(name, None)

    def counted_in(told: Scraped) -> Counter[str]:
        counts = told.by(REQUESTS, "request")
        return Counter({one: int(counts[one]) for one in counts if one not in NOT_ALL_SAID})

    before = counted_in(told_by(node))
    producer = Producer(
        {
            **settings,
            "transactional.id": "till",
            "statistics.interval.ms": 100,
            "stats_cb": note,
            "topic.metadata.refresh.interval.ms": -1,
        }
    )
    producer.init_transactions(WAIT_SECONDS)
    for _ in range(3):
        producer.begin_transaction()
        for number in range(10):
            producer.produce("orders", b"v", partition=number % 2)
            producer.flush()
        producer.commit_transaction(WAIT_SECONDS)
    sent.clear()

    counted: Counter[str] = Counter()

    def agrees(told: Scraped) -> bool:
        nonlocal counted
        counted = counted_in(told) - before
        producer.poll(0.1)
        return bool(sent) and +sent[-1] == counted

    try:
        told = scrape_until(f"http://{node.node.metrics_address}/metrics", agrees)
    except AssertionError:
        pytest.fail(f"the client says {sent[-1:]}, the node {counted}")
    assert told(REQUESTS, request="Produce") == 30
    assert told(REQUESTS, request="EndTxn") == 3


def test_a_long_poll_is_remote_time(node: RunningNode, dialogue: Dialogue) -> None:
    wait_ms = 600
    asked = FetchPartition(partition=0, partition_max_bytes=1_000)
    dialogue.exchange(fetch_request("orders", asked, wait_ms=wait_ms), version=12)
    told = told_by(node)
    assert_parts_add_up(told, "Fetch")
    count, remote_ms = timed(told, "remotetimems", "Fetch")
    assert count == 1
    # From its arrival on, and deadlines are in whole milliseconds: it may be shorter by one.
    assert timed(told, TOTAL, "Fetch")[1] >= wait_ms - 1
    assert told(f"{PREFIX}totaltimems_bucket", request="Fetch", le="524.288") == 0
    assert timed(told, "localtimems", "Fetch")[1] < remote_ms


def test_a_reply_behind_another_one_waits_to_be_sent(node: RunningNode, dialogue: Dialogue) -> None:
    wait_ms = 600
    asked = FetchPartition(partition=0, partition_max_bytes=1_000)
    hello = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    parts = [
        *encode_request(
            fetch_request("orders", asked, wait_ms=wait_ms),
            version=12,
            correlation_id=1,
            client_id="c",
        ),
        *encode_request(hello, version=4, correlation_id=2, client_id="c"),
    ]
    host, port = node.bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), WAIT_SECONDS) as client:
        client.sendall(b"".join(bytes(part) for part in parts))
        stream = client.makefile("rb")
        for number in (1, 2):
            frame = stream.read(int.from_bytes(stream.read(4), "big"))
            assert int.from_bytes(frame[:4], "big") == number
    told = told_by(node)
    for request in ("Fetch", "ApiVersions"):
        assert_parts_add_up(told, request)
        assert timed(told, TOTAL, request)[1] >= wait_ms - 1
    assert timed(told, "remotetimems", "ApiVersions") == (1, 0)
    sent_ms, local_ms = (
        timed(told, part, "ApiVersions")[1] for part in ("responsesendtimems", "localtimems")
    )
    assert sent_ms > local_ms


def test_log_ins_are_counted(tmp_path: Path) -> None:
    settings = {**sasl_listener("PLAIN"), "penstock.metrics.address": "0"}
    node = RunningNode(tmp_path, settings)
    node.start()
    try:
        at = node.node.addresses_by_listener["SASL_PLAINTEXT"]
        client = {
            "bootstrap.servers": str(at),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "alice-secret",
        }
        AdminClient(client).list_topics(timeout=WAIT_SECONDS)
        told = told_by(node)
        by_api = told.by(REQUESTS, "request")
        assert by_api["SaslHandshake"] == by_api["SaslAuthenticate"] == by_api["ApiVersions"] >= 1
        assert not errors(told)
    finally:
        node.stop()


def test_errors_are_counted_by_api_and_code(node: RunningNode, dialogue: Dialogue) -> None:
    unknown = fetch_request("bills", FetchPartition(partition=0), FetchPartition(partition=1))
    dialogue.exchange(unknown, version=12)
    damaged = bytearray(batch())
    damaged[-1] ^= 1
    for _ in range(2):
        dialogue.exchange(produce_request("orders", memoryview(damaged)), version=9)
    both = [PartitionProduceData(index=index, records=batch()) for index in (1, 7)]
    topic = TopicProduceData(name="orders", partition_data=both)
    dialogue.exchange(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), version=9)
    dialogue.exchange(HeartbeatRequest(group_id="readers", member_id="m"), version=4)
    named = [MetadataRequestTopic(name="bills")]
    dialogue.exchange(MetadataRequest(topics=named, allow_auto_topic_creation=False), version=9)
    assert errors(told_by(node)) == {
        ("Fetch", "UNKNOWN_TOPIC_OR_PARTITION"): 2,
        ("Produce", "CORRUPT_MESSAGE"): 2,
        ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
        ("Heartbeat", "NOT_COORDINATOR"): 1,
        ("Metadata", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
    }


def test_api_versions_of_an_unknown_version_is_an_error(
    node: RunningNode, dialogue: Dialogue
) -> None:
    from_the_future = struct.pack(">hhihx", ApiKey.API_VERSIONS, 99, 7, -1)
    host, port = node.bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), WAIT_SECONDS) as client:
        client.sendall(len(from_the_future).to_bytes(4, "big") + from_the_future)
        assert client.recv(8)[4:] == (7).to_bytes(4, "big")
    nobody = ApiVersionsRequest(client_software_name="-", client_software_version="1")
    dialogue.exchange(nobody, version=4)
    assert errors(told_by(node)) == {
        ("ApiVersions", "UNSUPPORTED_VERSION"): 1,
        ("ApiVersions", "INVALID_REQUEST"): 1,
    }


def test_what_is_no_request_is_not_counted(node: RunningNode, dialogue: Dialogue) -> None:
    before = told_by(node).by(REQUESTS, "request")
    host, port = node.bootstrap.rsplit(":", 1)
    parts = encode_request(FindCoordinatorRequest(), version=4, correlation_id=1, client_id="c")
    whole = b"".join(bytes(part) for part in parts)
    cut = whole[4:-3]
    for frame in (b"", b"\x00", b"\x7f\x7f\x00\x00", b"\x00\x00", cut):
        with socket.create_connection((host, int(port)), WAIT_SECONDS) as stranger:
            stranger.sendall(len(frame).to_bytes(4, "big") + frame)
            assert stranger.recv(1) == b""
    assert told_by(node).by(REQUESTS, "request") == before
