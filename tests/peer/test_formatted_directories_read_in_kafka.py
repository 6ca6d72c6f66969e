"""Apache Kafka's own tools read what `penstock storage format` writes, and the other way round."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rig.apache_kafka.agent import KafkaAgent
from rig.command import Outcome, run_command

Run = Callable[[str], Outcome]
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
VOTERS = "1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg,2@127.0.0.1:9094:MvDxzVmcRsaTz33bUuRU6A"
VOTERS_FILE = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    def run(command: str) -> Outcome:
        return run_command(command, bootstrap=None, monkeypatch=monkeypatch, captured=capfdbinary)

    return run


def properties(folder: Path) -> Path:
    file = folder / "server.properties"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": f"{folder / 'a'},{folder / 'b'}",
        "min.insync.replicas": "2",
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return file


def dumped(agent: KafkaAgent, file: Path) -> str:
    done = agent.run_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(file))
    assert done.status == 0, done.output
    assert "isvalid: false" not in done.output
    return re.sub(r"(CreateTime|crc|lastContainedLogTimestamp\")(: ?)\d+", r"\1\2-", done.output)


def test_kafka_reads_our_directories(kafka_agent: KafkaAgent, run: Run, tmp_path: Path) -> None:
    file = properties(tmp_path)
    command = f"storage format --cluster-id {CLUSTER} --config {file}"
    assert run(f"{command} --initial-controllers {VOTERS}").status == 0
    info = kafka_agent.run_tool("kafka-storage", "info", "--config", str(file))
    assert info.status == 0, info.output
    assert f"cluster.id={CLUSTER}" in info.output
    assert "directory.id=JEXY6aqzQY-32P5TStzaFg" in info.output
    payloads = [
        json.loads(line.partition(" payload: ")[2])["data"]
        for line in dumped(kafka_agent, tmp_path / "a" / "bootstrap.checkpoint").splitlines()
        if " payload: " in line
    ]
    assert {"name": "metadata.version", "featureLevel": 30} in payloads
    assert payloads[-1]["name"] == "min.insync.replicas"


def test_voters_are_written_as_kafka_writes_them(
    kafka_agent: KafkaAgent, run: Run, tmp_path: Path
) -> None:
    shown = []
    for name in ("ours", "theirs"):
        folder = tmp_path / name
        folder.mkdir()
        options = ("--cluster-id", CLUSTER, "--config", str(properties(folder)))
        options += ("--initial-controllers", VOTERS)
        if name == "ours":
            assert run(f"storage format {' '.join(options)}").status == 0
        else:
            done = kafka_agent.run_tool("kafka-storage", "format", *options)
            assert done.status == 0, done.output
        text = dumped(kafka_agent, folder / "a" / VOTERS_FILE)
        shown.append(text.replace(str(folder), ""))
    ours, theirs = shown
    assert ours == theirs
    assert "KRaftVoters" in ours


def test_we_read_directories_that_kafka_formatted(
    kafka_agent: KafkaAgent, run: Run, tmp_path: Path
) -> None:
    file = properties(tmp_path)
    options = ("--cluster-id", CLUSTER, "--config", str(file), "--no-initial-controllers")
    done = kafka_agent.run_tool("kafka-storage", "format", *options)
    assert done.status == 0, done.output
    described = run(f"storage info --config {file} --json").json()
    assert [one["path"] for one in described] == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert {one["cluster_id"] for one in described} == {CLUSTER}
