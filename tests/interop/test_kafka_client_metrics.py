"""Apache Kafka's own tool for subscriptions to the metrics of clients."""

from rig.apache_kafka.agent import KafkaAgent
from rig.broker import Broker


def test_kafka_client_metrics_alters_describes_lists_and_deletes(
    kafka_agent: KafkaAgent, bootstrap: str, broker: Broker
) -> None:
    def tool(*arguments: str, status: int = 0) -> str:
        run = kafka_agent.run_tool(
            "kafka-client-metrics", "--bootstrap-server", bootstrap, *arguments
        )
        assert run.status == status, run.output
        return run.output

    altered = tool(
        *("--alter", "--name", "basic", "--interval", "5000"),
        *("--metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer."),
        *("--match", "client_id=order-.*,client_software_name=apache-kafka-java"),
    )
    assert "Altered client metrics config for basic." in altered
    described = tool("--describe", "--name", "basic").splitlines()
    assert described[0] == "Client metrics configs for basic are:"
    assert sorted(line.strip() for line in described[1:]) == [
        "interval.ms=5000",
        "match=client_id=order-.*,client_software_name=apache-kafka-java",
        "metrics=org.apache.kafka.producer.,org.apache.kafka.consumer.",
    ]
    assert "basic" in tool("--list").split()
    assert "Client metrics configs for basic are:" in tool("--describe")
    wrong = tool("--alter", "--name", "basic", "--interval", "99", status=1)
    assert "interval" in wrong
    assert "Deleted client metrics config for basic." in tool("--delete", "--name", "basic")
    assert "basic" not in tool("--list").split()
