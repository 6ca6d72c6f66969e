"""Apache Kafka's own tools add users for SCRAM, log in as them, and are told when they may not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.apache_kafka.agent import KafkaAgent
from rig.running_node import RunningNode
from rig.sasl import PLAIN_MODULE, SCRAM_MODULE, sasl_listener


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    running = RunningNode(
        tmp_path_factory.mktemp("node"), sasl_listener("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    )
    running.start()
    yield str(running.node.addresses_by_listener["SASL_PLAINTEXT"])
    running.stop()


def config(path: Path, *, mechanism: str, user: str, password: str) -> str:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{password}";\n'
    )
    return str(path)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_kafka_configs_adds_describes_and_removes_a_user(
    kafka_agent: KafkaAgent, address: str, tmp_path: Path, mechanism: str
) -> None:
    admin = config(tmp_path / "admin", mechanism="PLAIN", user="admin", password="admin-secret")
    user = config(tmp_path / "user", mechanism=mechanism, user="java", password="java-secret")

    def configs(*arguments: str) -> str:
        run = kafka_agent.run_tool(
            "kafka-configs",
            *("--bootstrap-server", address, "--command-config", admin),
            *("--entity-type", "users", "--entity-name", "java", *arguments),
        )
        assert run.status == 0, run.output
        return run.output

    configs("--alter", "--add-config", f"{mechanism}=[iterations=8192,password=java-secret]")
    shown = configs("--describe")
    assert f"{mechanism}=iterations=8192" in shown
    assert "java-secret" not in shown
    tool = ("kafka-topics", "--bootstrap-server", address, "--command-config", user, "--list")
    assert kafka_agent.run_tool(*tool).status == 0
    configs("--alter", "--delete-config", mechanism)
    refused = kafka_agent.run_tool(*tool)
    assert refused.status != 0
    assert "invalid credentials with SASL mechanism" in refused.output


def test_a_wrong_password_is_told_as_kafka_tells_it(
    kafka_agent: KafkaAgent, address: str, tmp_path: Path
) -> None:
    wrong = config(tmp_path / "wrong", mechanism="PLAIN", user="admin", password="wrong")
    run = kafka_agent.run_tool(
        "kafka-topics", "--bootstrap-server", address, "--command-config", wrong, "--list"
    )
    assert run.status != 0
    assert "Authentication failed: Invalid username or password" in run.output
