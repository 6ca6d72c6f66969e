"""Settings of nodes in a cluster are accepted and refused as Apache Kafka does it."""

from pathlib import Path

import pytest

from rig.apache_kafka.agent import KafkaAgent
from rig.cluster_settings import ACCEPTED, ACCEPTED_BY_KAFKA, REFUSED

# `kafka-storage info` reads the settings before it looks for directories.
LOOKED_FOR_DIRECTORIES = "Found problem"


def accepted_by_kafka(agent: KafkaAgent, given: dict[str, str], folder: Path) -> bool:
    file = folder / "server.properties"
    settings = {**given, "log.dirs": str(folder / "none")}
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    run = agent.run_tool("kafka-storage", "info", "--config", str(file))
    return LOOKED_FOR_DIRECTORIES in run.output


@pytest.mark.parametrize("given", ACCEPTED)
def test_kafka_accepts_what_we_accept(
    kafka_agent: KafkaAgent, tmp_path: Path, given: dict[str, str]
) -> None:
    assert accepted_by_kafka(kafka_agent, given, tmp_path)


@pytest.mark.parametrize(("given", "expected"), REFUSED)
def test_kafka_refuses_what_we_refuse(
    kafka_agent: KafkaAgent, tmp_path: Path, given: dict[str, str], expected: str
) -> None:
    stricter = any(words in expected for words in ACCEPTED_BY_KAFKA)
    assert accepted_by_kafka(kafka_agent, given, tmp_path) == stricter
