"""Clients push their own metrics (KIP-714), and a scrape of the node shows them beside its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
)

from penstock.model.error import ErrorCode
from penstock.model.limit import (
    TELEMETRY_SERIES_PER_CLIENT_MAX,
    TELEMETRY_SUBSCRIPTIONS_MAX,
    TELEMETRY_TEXT_CHARS_MAX,
)
from penstock.wire.api import ApiKey
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.wire.messages.push_telemetry import PushTelemetryRequest
from rig.apache_kafka.agent import KafkaAgent
from rig.dialogue import Dialogue
from rig.otlp import gauge, metrics_data, point
from rig.running_node import RunningNode, running_node
from rig.scraping import Scraped, scrape, scrape_open_metrics, scrape_until

CLIENT_METRICS = 16
SET, DELETE = 0, 1
WAIT_SECONDS = 60
PREFIX = "penstock_client_"
PUSHES = "penstock_telemetry_pushes_total"
TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with running_node(tmp_path, penstock_metrics_address="127.0.0.1:0") as running:
        yield running


def url_of(node: RunningNode) -> str:
    return f"http://{node.node.metrics_address}/metrics"


def subscribe(node: RunningNode, *names: str, **config: str | None) -> None:
    """To the same by all these names; None removes a setting."""
    changes = [
        AlterableConfig(
            name=name.replace("_", "."), config_operation=SET if value else DELETE, value=value
        )
        for name, value in config.items()
    ]
    resources = [
        AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=changes)
        for name in names or ("all",)
    ]
    dialogue = Dialogue(node.bootstrap, "unused")
    request = IncrementalAlterConfigsRequest(resources=resources)
    for reply in dialogue.exchange(request, version=1).responses:
        assert reply.error_code == ErrorCode.NONE, reply.error_message


def asked_for(node: RunningNode) -> list[str]:
    """Of a client that nobody knows yet."""
    dialogue = Dialogue(node.bootstrap, "unused")
    metrics = dialogue.exchange(GetTelemetrySubscriptionsRequest(), version=0).requested_metrics
    dialogue.close()
    assert isinstance(metrics, list)
    return metrics


def of_clients(told: Scraped) -> set[str]:
    return {name for name in told.families if name.startswith(PREFIX)}


def test_librdkafka_pushes_what_is_subscribed(node: RunningNode) -> None:
    subscribe(node, metrics="*", interval_ms="100", match="client_id=order-.*")
    producer = Producer({"bootstrap.servers": node.bootstrap, "client.id": "order-7"})
    silent = Producer({"bootstrap.servers": node.bootstrap, "client.id": "other"})
    name = f"{PREFIX}org_apache_kafka_producer_connection_creation_total"

    def is_told(told: Scraped) -> bool:
        for one in (producer, silent):
            one.produce("orders", b"v")
            one.flush()
        return any(value >= 1 for _, value in told.all(name))

    told = scrape_until(url_of(node), is_told)
    for labels, _ in told.all(name):
        assert labels["client_id"] == "order-7"
        assert labels["client_software_name"] == "confluent-kafka-python"
        assert labels["client_software_version"]
        assert len(labels["client_instance_id"]) == 22
    assert told("penstock_telemetry_series") > 0
    assert of_clients(scrape_open_metrics(url_of(node)))


def test_a_java_client_pushes_what_is_subscribed(
    node: RunningNode, kafka_agent: KafkaAgent
) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("orders", 1)])["orders"].result(WAIT_SECONDS)
    subscribe(node, metrics="org.apache.kafka.producer.", interval_ms="100")
    run = kafka_agent.run_tool(
        *("kafka-producer-perf-test", "--topic", "orders", "--num-records", "500"),
        *("--record-size", "10", "--throughput", "100"),
        *("--producer-props", f"bootstrap.servers={node.bootstrap}", "client.id=java"),
    )
    assert run.status == 0, run.output
    told = scrape(url_of(node))
    name = f"{PREFIX}org_apache_kafka_producer_record_send_total"
    [(labels, value)] = [one for one in told.all(name) if "topic" not in one[0]]
    # Whether a push comes after the last record is the client's affair.
    assert 0 < value <= 500
    assert labels["client_id"] == "java"
    assert labels["client_software_name"] == "apache-kafka-java"
    assert {one for one in of_clients(told) if "_consumer_" in one} == set()


def test_without_a_subscription_nothing_is_collected(node: RunningNode) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})

    def has_asked(told: Scraped) -> bool:
        producer.produce("orders", b"v")
        producer.flush()
        return told("kafka_server_client_metrics_instance_count") >= 1

    told = scrape_until(url_of(node), has_asked)
    assert told("penstock_telemetry_series") == 0
    assert of_clients(told) == set()
    assert sum(value for _, value in told.all(PUSHES)) == 0


def test_telemetry_is_advertised_only_where_metrics_are_shown(
    node: RunningNode, tmp_path: Path
) -> None:
    def advertised(one: RunningNode) -> set[int]:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        reply = Dialogue(one.bootstrap, "unused").exchange(request, version=3)
        return {key.api_key for key in reply.api_keys} & TELEMETRY

    assert advertised(node) == TELEMETRY
    with running_node(tmp_path / "without") as without:
        assert advertised(without) == set()
        subscribe(without, metrics="*", interval_ms="100")
        producer = Producer({"bootstrap.servers": without.bootstrap})
        producer.produce("orders", b"v")
        assert producer.flush(WAIT_SECONDS) == 0


def test_subscriptions_survive_a_restart(tmp_path: Path) -> None:
    with running_node(tmp_path, penstock_metrics_address="127.0.0.1:0") as first:
        subscribe(first, metrics="org.a,org.b", interval_ms="5000")
    with running_node(tmp_path, penstock_metrics_address="127.0.0.1:0") as again:
        reply = Dialogue(again.bootstrap, "unused").exchange(
            GetTelemetrySubscriptionsRequest(), version=0
        )
    assert reply.requested_metrics == ["org.a", "org.b"]
    assert reply.push_interval_ms == 5000
    assert reply.telemetry_max_bytes == 1_048_576


def test_of_too_many_subscriptions_the_first_by_name_are_used(
    node: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"s-{number:03}" for number in range(TELEMETRY_SUBSCRIPTIONS_MAX)]
    subscribe(node, *names, metrics="org.a")
    subscribe(node, "t-000", metrics="org.t")
    assert asked_for(node) == ["org.a"]
    assert "subscription='t-000' used=false" in caplog.text
    subscribe(node, "r-000", metrics="org.r")
    assert asked_for(node) == ["org.a", "org.r"]
    subscribe(node, "r-000", names[0], metrics=None)
    assert asked_for(node) == ["org.a", "org.t"]


def test_a_costly_subscription_is_named_in_the_log(
    node: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    subscribe(node, metrics="*", match="client_software_name=" + ".?" * 300 + "x")
    dialogue = Dialogue(node.bootstrap, "unused")
    software = ApiVersionsRequest(client_software_name="z" * 150, client_software_version="1")
    dialogue.exchange(software, version=3)
    for _ in range(2):
        asked = dialogue.exchange(GetTelemetrySubscriptionsRequest(), version=0)
        assert asked.requested_metrics == []
    told = [one.getMessage() for one in caplog.records if "too many steps" in one.getMessage()]
    assert len(told) == 1
    assert "subscription='all' matched=false" in told[0]


def push(
    node: RunningNode, metrics: bytes, *, codec: int = 0, subscription: int | None = None
) -> ErrorCode:
    """By a client of its own, so that none is throttled."""
    dialogue = Dialogue(node.bootstrap, "unused")
    own = dialogue.exchange(GetTelemetrySubscriptionsRequest(), version=0)
    request = PushTelemetryRequest(
        client_instance_id=own.client_instance_id,
        subscription_id=own.subscription_id if subscription is None else subscription,
        compression_type=codec,
        metrics=metrics,
    )
    error = ErrorCode(dialogue.exchange(request, version=0).error_code)
    dialogue.close()
    return error


def test_values_that_are_not_told_are_counted(node: RunningNode) -> None:
    subscribe(node, metrics="*", interval_ms="100")

    def left_out() -> float:
        return scrape(url_of(node))("penstock_telemetry_left_out_total")

    assert left_out() == 0
    too_many = TELEMETRY_SERIES_PER_CLIENT_MAX + 5
    many = gauge("org.many", *(point(1.0, number=number) for number in range(too_many)))
    assert push(node, metrics_data(many)) == ErrorCode.NONE
    assert left_out() == 5
    wide = point(1.0, **{f"label{number}": "v" * 200 for number in range(8)})
    long_name = "org." + "x" * TELEMETRY_TEXT_CHARS_MAX
    others = metrics_data(
        gauge("org.wide", wide, point(2.0)), gauge(long_name, point(1.0)), gauge("", point(1.0))
    )
    assert push(node, others) == ErrorCode.NONE
    told = scrape(url_of(node))
    assert told("penstock_telemetry_left_out_total") == 5 + 3
    assert told("penstock_telemetry_series") == TELEMETRY_SERIES_PER_CLIENT_MAX + 1
    assert of_clients(told) == {f"{PREFIX}org_many", f"{PREFIX}org_wide"}


def test_pushes_that_are_wrong_are_answered_and_leave_nothing(node: RunningNode) -> None:
    subscribe(node, metrics="*", interval_ms="100")
    dialogue = Dialogue(node.bootstrap, "unused")
    asked = dialogue.exchange(GetTelemetrySubscriptionsRequest(), version=0)
    assert asked.error_code == ErrorCode.NONE
    again = GetTelemetrySubscriptionsRequest(client_instance_id=asked.client_instance_id)
    assert dialogue.exchange(again, version=0).error_code in (
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.NONE,  # of a machine that was so slow
    )

    assert push(node, b"") == ErrorCode.NONE
    assert push(node, b"\xff" * 100) == ErrorCode.INVALID_RECORD
    assert push(node, b"\x0a\x7f") == ErrorCode.INVALID_RECORD
    assert push(node, b"no gzip", codec=1) == ErrorCode.INVALID_RECORD
    assert push(node, b"", codec=9) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert push(node, b"", subscription=7) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert push(node, bytes(1_048_577)) == ErrorCode.TELEMETRY_TOO_LARGE
    told = scrape(url_of(node))
    assert of_clients(told) == set()
    assert told(PUSHES, error="INVALID_RECORD") == 3
