"""Apache Kafka's own tools are let in by the file that `serve --nodes N --secured DIR` writes."""

import signal
from pathlib import Path

from rig.apache_kafka.agent import KafkaAgent
from rig.served_cluster import PENSTOCK, READY, NodeProcess


def test_the_admins_file_is_one_for_java_too(kafka_agent: KafkaAgent, tmp_path: Path) -> None:
    secured = tmp_path / "security"
    command = [PENSTOCK, "serve", "--nodes", "3", "--data", str(tmp_path / "data"), "--port", "0"]
    process = NodeProcess("serve", [*command, "--secured", str(secured)], tmp_path / "serve.log")
    process.begin()
    try:
        bootstrap = process.until_logged(READY, at_start=True).removeprefix(READY)
        admin = str(secured / "admin.properties")

        def tool(name: str, *arguments: str) -> str:
            to_it = ("--bootstrap-server", bootstrap, "--command-config", admin)
            run = kafka_agent.run_tool(name, *to_it, *arguments)
            assert run.status == 0, run.output
            return run.output

        tool("kafka-topics", "--create", "--topic", "orders", "--partitions", "3")
        assert "orders" in tool("kafka-topics", "--list")
        users = tool("kafka-configs", "--describe", "--entity-type", "users")
        assert "user-principal 'admin' are SCRAM-SHA-512" in users
    finally:
        if process.running:
            process.end(signal.SIGINT)
