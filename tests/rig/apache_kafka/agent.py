"""The one JVM in which the Java client, its AdminClient and Kafka's tools run for all tests."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rig.apache_kafka.java import compiled, java_command

JAVA = Path(__file__).resolve().parents[1] / "java"
SOURCES = tuple(
    JAVA / f"{name}.java" for name in ("KafkaAgent", "TransactionalClients", "ClientScenarios")
)
MAIN = "KafkaAgent"

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}


class JavaRefused(Exception):
    """What Java threw, and the error code of the protocol that it stands for."""

    def __init__(self, *, error: str, code: int, message: str) -> None:
        super().__init__(f"{error}: {message}")
        self.error = error
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    status: int
    output: str


class KafkaAgent:
    """Requests and replies are lines of JSON; `tests/rig/java/KafkaAgent.java` is the other end."""

    def __init__(self, *, jars: Path, folder: Path) -> None:
        self._log = folder / "agent.log"
        classes = compiled(SOURCES, jars=jars, folder=folder)
        command = [*java_command(jars, heap_mib=256, folder=folder, classes=classes), MAIN]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def ask(self, operation: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"operation": operation, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the JVM ended: {self._log.read_text('utf-8', 'replace')[-4000:]}")
        reply = json.loads(line)
        if "error" in reply:
            raise JavaRefused(**reply)
        return reply["result"]

    def run_tool(self, tool: str, *arguments: str, input: str = "") -> ToolRun:
        """One of Kafka's tools, by the name of its script, with what it printed."""
        run = self.ask("tool", main=TOOLS[tool], arguments=arguments, input=input)
        return ToolRun(status=run["status"], output=run["output"])

    def stop(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
