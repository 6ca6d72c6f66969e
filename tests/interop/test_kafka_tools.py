"""Apache Kafka's own command-line tools, each run as its script runs it."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

from rig.apache_kafka.agent import KafkaAgent, ToolRun
from rig.broker import Broker
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.clients.java import JavaClient

TopicMaker = Callable[..., str]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def done(run: ToolRun) -> str:
    assert run.status == 0, run.output
    return run.output


def fill(client: ConfluentClient, name: str, *, count: int) -> None:
    """Values v0, v1, ... in partition 0, one a second."""
    messages = [
        Message(value=b"v%d" % n, partition=0, timestamp_ms=1_700_000_000_000 + n * 1_000)
        for n in range(count)
    ]
    client.produce(name, messages)


def test_kafka_topics_creates_shows_alters_and_deletes(
    kafka_agent: KafkaAgent, bootstrap: str
) -> None:
    def topics(*arguments: str) -> ToolRun:
        return kafka_agent.run_tool("kafka-topics", "--bootstrap-server", bootstrap, *arguments)

    name = "made-by-kafka-topics"
    create = ("--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=60000")
    assert f"Created topic {name}." in done(topics(*create))
    assert name in done(topics("--list")).split()
    shown = done(topics("--describe", "--topic", name))
    assert "PartitionCount: 3" in shown
    assert "retention.ms=60000" in shown
    done(topics("--alter", "--topic", name, "--partitions", "5"))
    assert "PartitionCount: 5" in done(topics("--describe", "--topic", name))
    again = topics(*create)
    assert again.status == 1
    assert "already exists" in again.output
    done(topics("--delete", "--topic", name))
    assert name not in done(topics("--list")).split()


def test_kafka_metadata_quorum_describes(kafka_agent: KafkaAgent, bootstrap: str) -> None:
    def describe(what: str) -> str:
        return done(
            kafka_agent.run_tool(
                "kafka-metadata-quorum", "--bootstrap-server", bootstrap, "describe", what
            )
        )

    status = dict(line.split(":", 1) for line in describe("--status").splitlines() if ":" in line)
    assert status["LeaderId"].strip() == "1"
    assert status["MaxFollowerLag"].strip() == "0"
    assert int(status["HighWatermark"]) > 0
    *_, leader = describe("--replication").strip().splitlines()
    assert leader.split()[0] == "1"
    assert leader.split()[-1] == "Leader"


def test_kafka_configs_describes_and_alters(
    kafka_agent: KafkaAgent, bootstrap: str, topic: TopicMaker
) -> None:
    name = topic()

    def configs(*arguments: str) -> str:
        entity = ("--bootstrap-server", bootstrap, "--topic", name)
        return done(kafka_agent.run_tool("kafka-configs", *entity, *arguments))

    configs("--alter", "--add-config", "cleanup.policy=[compact,delete],retention.ms=1000")
    shown = configs("--describe")
    assert "cleanup.policy=compact,delete" in shown
    assert "retention.ms=1000" in shown
    configs("--alter", "--delete-config", "retention.ms")
    assert "retention.ms=1000" not in configs("--describe")
    assert "segment.bytes=1073741824" in configs("--describe", "--all")


def test_kafka_configs_describes_the_broker(kafka_agent: KafkaAgent, bootstrap: str) -> None:
    shown = kafka_agent.run_tool(
        *("kafka-configs", "--bootstrap-server", bootstrap, "--broker", "1"),
        *("--describe", "--all"),
    )
    assert "num.partitions=" in done(shown)


def test_kafka_configs_alters_and_describes_a_group(
    kafka_agent: KafkaAgent, bootstrap: str
) -> None:
    def configs(*arguments: str) -> str:
        entity = ("--bootstrap-server", bootstrap, "--entity-type", "groups")
        return done(kafka_agent.run_tool("kafka-configs", *entity, *arguments))

    one = ("--entity-name", "of-its-own")
    configs(*one, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    shown = configs(*one, "--describe")
    assert "consumer.session.timeout.ms=50000" in shown
    assert "consumer.heartbeat.interval.ms" not in shown
    assert "consumer.heartbeat.interval.ms=5000" in configs(*one, "--describe", "--all")
    configs(*one, "--alter", "--delete-config", "consumer.session.timeout.ms")
    assert "consumer.session.timeout.ms" not in configs(*one, "--describe")


def test_kafka_get_offsets_knows_both_ends_and_the_latest_time(
    kafka_agent: KafkaAgent, bootstrap: str, confluent: ConfluentClient, topic: TopicMaker
) -> None:
    name = topic(partitions=2)
    fill(confluent, name, count=5)

    def offsets(time: str) -> list[str]:
        arguments = ("--bootstrap-server", bootstrap, "--topic", name, "--time", time)
        return done(kafka_agent.run_tool("kafka-get-offsets", *arguments)).split()

    assert offsets("latest") == [f"{name}:0:5", f"{name}:1:0"]
    assert offsets("earliest") == [f"{name}:0:0", f"{name}:1:0"]
    assert f"{name}:0:4" in offsets("max-timestamp")


def test_kafka_delete_records_moves_the_start(
    kafka_agent: KafkaAgent,
    bootstrap: str,
    confluent: ConfluentClient,
    topic: TopicMaker,
    tmp_path: Path,
) -> None:
    name = topic()
    fill(confluent, name, count=8)
    wanted = {"version": 1, "partitions": [{"topic": name, "partition": 0, "offset": 3}]}
    plan = tmp_path / "delete.json"
    plan.write_text(json.dumps(wanted), encoding="utf-8")
    arguments = ("--bootstrap-server", bootstrap, "--offset-json-file", str(plan))
    assert "low_watermark: 3" in done(kafka_agent.run_tool("kafka-delete-records", *arguments))
    assert confluent.offset_bounds(name, 0) == (3, 8)


def test_kafka_log_dirs_shows_sizes(
    kafka_agent: KafkaAgent, bootstrap: str, confluent: ConfluentClient, topic: TopicMaker
) -> None:
    name = topic()
    fill(confluent, name, count=8)
    arguments = ("--bootstrap-server", bootstrap, "--describe", "--topic-list", name)
    shown = done(kafka_agent.run_tool("kafka-log-dirs", *arguments))
    [broker] = json.loads(shown.strip().splitlines()[-1])["brokers"]
    [directory] = broker["logDirs"]
    assert directory["error"] is None
    [partition] = directory["partitions"]
    assert partition["partition"] == f"{name}-0"
    assert partition["size"] > 0


def test_kafka_producer_perf_test_is_acked_in_full(
    kafka_agent: KafkaAgent, bootstrap: str, confluent: ConfluentClient, topic: TopicMaker
) -> None:
    name = topic()
    shown = kafka_agent.run_tool(
        *("kafka-producer-perf-test", "--bootstrap-server", bootstrap, "--topic", name),
        *("--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
    )
    assert "20000 records sent" in done(shown)
    assert confluent.offset_bounds(name, 0) == (0, 20_000)


def test_what_the_console_producer_wrote_the_console_consumer_reads(
    kafka_agent: KafkaAgent, bootstrap: str, topic: TopicMaker
) -> None:
    name = topic()
    produced = kafka_agent.run_tool(
        *("kafka-console-producer", "--bootstrap-server", bootstrap, "--topic", name),
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
        input="k1:eins\nk2:zwei\nk1:drei\n",
    )
    done(produced)
    consumed = kafka_agent.run_tool(
        *("kafka-console-consumer", "--bootstrap-server", bootstrap, "--topic", name),
        *("--partition", "0", "--offset", "earliest", "--max-messages", "3"),
        *("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"),
    )
    assert done(consumed).splitlines()[:3] == ["k1:eins", "k2:zwei", "k1:drei"]


def test_kafka_broker_api_versions_understands_every_version(
    kafka_agent: KafkaAgent, bootstrap: str
) -> None:
    shown = done(kafka_agent.run_tool("kafka-broker-api-versions", "--bootstrap-server", bootstrap))
    assert "Produce(0): 0 to 13 [usable: 13]" in shown
    assert "Fetch(1): 4 to 18 [usable: 18]" in shown
    assert "InitProducerId(22): 0 to" in shown


def test_kafka_dump_log_reads_segments_and_indexes_without_complaint(
    kafka_agent: KafkaAgent, broker: Broker, confluent: ConfluentClient, topic: TopicMaker
) -> None:
    name = topic(**{"segment.bytes": str(1024 * 1024), "index.interval.bytes": "4096"})
    value = Random(1).randbytes(15_000) + bytes(5_000)
    messages = [Message(key=b"k", value=value, partition=0, headers=(("h", b"1"),))]
    for codec in CODECS:
        confluent.produce(name, messages * 20, codec=codec, alone=True)
    [folder] = broker.data.rglob(f"{name}-0")
    segments = sorted(folder.glob("*.log"))
    assert len(segments) > 1
    # The newest segment's indexes may be preallocated: Kafka's own tool calls those corrupt.
    rolled = segments[:-1]
    indexes = [path.with_suffix(kind) for path in rolled for kind in (".index", ".timeindex")]
    snapshots = sorted(folder.glob("*.snapshot"))
    assert snapshots, "a roll leaves the producers' state behind"
    files = ",".join(str(path) for path in segments + snapshots)
    shown = done(kafka_agent.run_tool("kafka-dump-log", "--files", files, "--deep-iteration"))
    assert sum(shown.count(f"compresscodec: {codec} ") for codec in CODECS) >= 100
    assert "isvalid: false" not in shown
    assert "producerId: " in shown
    for index in indexes:
        checked = done(
            kafka_agent.run_tool("kafka-dump-log", "--files", str(index), "--index-sanity-check")
        )
        assert "passed sanity check" in checked
    verified = done(kafka_agent.run_tool("kafka-dump-log", "--files", ",".join(map(str, indexes))))
    assert "Mismatches" not in verified
    assert "Found timestamp mismatch" not in verified
    assert "out of order" not in verified


def test_the_admin_client_knows_the_latest_timestamp_and_the_producers(
    kafka_agent: KafkaAgent, bootstrap: str, java: JavaClient, topic: TopicMaker
) -> None:
    name = topic()
    stamps = (5_000, 9_000, 7_000)
    java.produce(name, [Message(value=b"v", partition=0, timestamp_ms=ms) for ms in stamps])

    def ask(operation: str) -> object:
        return kafka_agent.ask(operation, bootstrap=bootstrap, topic=name, partition=0)

    assert ask("offset_of_max_timestamp") == 1
    assert ask("producers") == 1
    assert isinstance(ask("cluster_id"), str)
    assert ask("topic_id") != "AAAAAAAAAAAAAAAAAAAAAA"
