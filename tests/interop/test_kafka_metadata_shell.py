"""Apache Kafka's metadata shell on the snapshots of a cluster's nodes."""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from rig.apache_kafka.java import java_command
from rig.clients.confluent import QUIET
from rig.cluster_questions import until
from rig.served_cluster import ServedCluster

MAIN = "org.apache.kafka.shell.MetadataShell"
PROMPT = ">> "
TOPICS = ("orders", "payments")


class MetadataShell:
    """One shell, asked by lines. It takes commands before it has read the snapshot to its end, so
    what it says first may be incomplete.
    """

    def __init__(self, *, jars: Path, folder: Path, snapshot: Path) -> None:
        start = java_command(jars, heap_mib=128, folder=folder, log_level="OFF")
        self._process = subprocess.Popen(
            [*start, MAIN, "--snapshot", str(snapshot)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._numbers = count(1)
        self.ask("pwd")  # and with it what it says at its start

    def ask(self, command: str) -> list[str]:
        """What it prints. The end is told by the refusal of another command."""
        assert self._process.stdin is not None and self._process.stdout is not None
        end = f"nowhere-{next(self._numbers)}"
        self._process.stdin.write(f"{command}\ncd /{end}\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            said = line.rstrip("\n").removeprefix(PROMPT)
            if end in said:
                return lines
            lines.append(said)
        raise AssertionError(f"the shell ended: {lines}")

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    settings = {"metadata_log_max_record_bytes_between_snapshots": "1"}
    with ServedCluster(tmp_path_factory.mktemp("cluster"), **settings) as cluster:
        cluster.start()
        # No consumer, which would look for its coordinator, and so have a third topic made.
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": QUIET})
        for made in admin.create_topics([NewTopic(topic, 3) for topic in TOPICS]).values():
            made.result()
        yield cluster


def latest_snapshot(cluster: ServedCluster, number: int) -> Path:
    [directory] = [Path(one.directory) for one in cluster.laid_out if one.node_id == number]
    return max((directory / "__cluster_metadata-0").glob("*.checkpoint"))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_shell_shows_what_the_snapshot_of_a_node_holds(
    cluster: ServedCluster, number: int, shell_jars: Path, tmp_path: Path
) -> None:
    def has_both_topics() -> bool:
        content = latest_snapshot(cluster, number).read_bytes()
        return all(topic.encode() in content for topic in TOPICS)

    until(f"node {number} has a snapshot with both topics", has_both_topics)
    snapshot = latest_snapshot(cluster, number)
    with closing(MetadataShell(jars=shell_jars, folder=tmp_path, snapshot=snapshot)) as shell:

        def shows(command: str, *lines: str) -> None:
            until(f"{command} shows {lines}", lambda: shell.ask(command) == list(lines))

        shows("ls /image/topics/byName", *TOPICS)
        shows("ls /image/cluster/brokers", "1", "2", "3")
        shows("ls /image/cluster/controllers", "1", "2", "3")
        [broker] = shell.ask(f"cat /image/cluster/brokers/{number}")
        assert f"BrokerRegistration(id={number}, " in broker
        assert "fenced=false" in broker
        [partition] = shell.ask(f"cat /image/topics/byName/{TOPICS[0]}/0")
        assert partition.startswith("PartitionRegistration(replicas=[")
        assert "leaderRecoveryState=RECOVERED, leaderEpoch=0" in partition
