"""What tests of several packages share: Apache Kafka itself, where Java and Maven exist.

Nothing is tested with compiled modules that are older than their sources. Properties are tried with
the same examples each time, so that a change is judged by what it changes; PENSTOCK_EXPLORE=1 draws
others, and what it finds becomes a test.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from penstock.cli.compiled import (
    Form,
    StaleModules,
    hot_modules_form,
    kernel_form,
    refuse_stale,
)
from rig.apache_kafka.agent import KafkaAgent
from rig.apache_kafka.broker import ApacheKafka
from rig.apache_kafka.jars import (
    PeerMissing,
    fetched_jars,
    fetched_shell_jars,
    fetched_streams_jars,
)

pytest_plugins = ["rig.outcome_record", "rig.slow_until"]

# How long an example takes, or is in the making, is no property: a machine may be busy elsewhere.
hypothesis.settings.register_profile(
    "penstock",
    derandomize=os.environ.get("PENSTOCK_EXPLORE") != "1",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("penstock")


def pytest_configure() -> None:
    try:
        refuse_stale()
    except StaleModules as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)


def pytest_report_header() -> str:
    return f"record kernel: {kernel_form().value}, hot modules: {hot_modules_form().value}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What puts other code in the place of ours can't do so with compiled code."""
    if hot_modules_form() is Form.PYTHON:
        return
    elsewhere = pytest.mark.skip("alters code: tidy/test_compiled_modules.py runs it in Python")
    for item in items:
        if item.get_closest_marker("alters_code") is not None:
            item.add_marker(elsewhere)


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    try:
        return fetched_jars()
    except PeerMissing as missing:
        pytest.skip(f"needs Apache Kafka: {missing}")


@pytest.fixture(scope="session")
def streams_jars() -> Path:
    try:
        return fetched_streams_jars()
    except PeerMissing as missing:
        pytest.skip(f"needs Kafka Streams: {missing}")


@pytest.fixture(scope="session")
def shell_jars() -> Path:
    try:
        return fetched_shell_jars()
    except PeerMissing as missing:
        pytest.skip(f"needs Apache Kafka's metadata shell: {missing}")


@pytest.fixture(scope="session")
def kafka_agent(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaAgent]:
    """The Java client, its AdminClient and Kafka's tools (`run_tool`), in one JVM."""
    agent = KafkaAgent(jars=kafka_jars, folder=tmp_path_factory.mktemp("agent"))
    yield agent
    agent.stop()


@pytest.fixture(scope="session")
def apache_kafka(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApacheKafka]:
    """A real broker of Apache Kafka, for scenarios that run on both."""
    settings = {
        "auto.create.topics.enable": "false",
        # Else the second assignment of a consumer group is a second late (KIP-1263).
        "group.consumer.assignment.interval.ms": "0",
        # How long a transaction may outlive its time-out: else ten seconds.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    peer = ApacheKafka(jars=kafka_jars, folder=tmp_path_factory.mktemp("peer"), settings=settings)
    peer.start()
    yield peer
    peer.stop()
