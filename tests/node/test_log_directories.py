"""A node over several log directories, and on a disk that runs full."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.node.directory_owners import ForeignDirectory
from rig.clients.confluent import QUIET
from rig.running_node import RunningNode, running_node
from rig.serve import ServedNode
from rig.small_disk import small_disk

TOPIC = "ledger"
DISK_BYTES = 4 * 1024 * 1024
WAIT_SECONDS = 120


def properties(path: Path) -> dict[str, str]:
    lines = (path / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def test_each_directory_is_formatted_for_one_cluster_under_an_id_of_its_own(
    tmp_path: Path,
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    with running_node(tmp_path / "data", log_dirs=f"{a},{b}"):
        assert (a / "__cluster_metadata-0").is_dir()
        assert not (b / "__cluster_metadata-0").exists()
    ours = [properties(path) for path in (a, b)]
    assert ours[0]["cluster.id"] == ours[1]["cluster.id"]
    assert ours[0]["directory.id"] != ours[1]["directory.id"]
    assert (a / ".kafka_cleanshutdown").exists() and (b / ".kafka_cleanshutdown").exists()
    with running_node(tmp_path / "data", log_dirs=f"{a},{b},{tmp_path / 'c'}"):
        assert properties(tmp_path / "c")["cluster.id"] == ours[0]["cluster.id"]


def test_the_metadata_log_lives_where_it_is_told_to(tmp_path: Path) -> None:
    apart = tmp_path / "apart"
    with running_node(tmp_path / "data", log_dirs=str(tmp_path / "a"), metadata_log_dir=str(apart)):
        assert (apart / "__cluster_metadata-0").is_dir()
        assert not (tmp_path / "a" / "__cluster_metadata-0").exists()


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        with running_node(tmp_path / "data", log_dirs=str(tmp_path / name)):
            pass
    both = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    node = RunningNode(tmp_path / "data", both)
    with pytest.raises(ForeignDirectory, match=r"b belongs to cluster .*, as .*/a does"):
        node.start()


def test_what_lies_in_a_directory_that_is_away_is_not_made_anew_elsewhere(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    both = {"log.dirs": f"{a},{b}"}

    def leaders(node: ServedNode) -> dict[int, int]:
        asked = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": QUIET})
        told = asked.list_topics(TOPIC, timeout=WAIT_SECONDS).topics[TOPIC]
        return {index: partition.leader for index, partition in told.partitions.items()}

    node = ServedNode(data=tmp_path / "data", settings=both)
    node.start()
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": QUIET})
    admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(WAIT_SECONDS)
    lies_in_b = {index for index in range(4) if (b / f"{TOPIC}-{index}").is_dir()}
    assert len(lies_in_b) == 2
    assert node.stop() == 0

    b.rename(tmp_path / "away")
    b.write_text("no directory")
    node.start()
    assert {index for index, leader in leaders(node).items() if leader == -1} == lies_in_b
    assert not any((a / f"{TOPIC}-{index}").exists() for index in lies_in_b)
    assert node.stop() == 0

    b.unlink()
    (tmp_path / "away").rename(b)
    node.start()
    assert -1 not in leaders(node).values()
    assert node.stop() == 0


def test_a_topic_made_again_while_a_directory_was_away_does_not_stop_the_next_start(
    tmp_path: Path,
) -> None:
    """What the directory brings back of the deleted topic is set aside."""
    a, b = tmp_path / "a", tmp_path / "b"
    node = ServedNode(data=tmp_path / "data", settings={"log.dirs": f"{a},{b}"})
    node.start()

    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": QUIET})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(WAIT_SECONDS)
    (lies_in_b,) = (index for index in range(2) if (b / f"{TOPIC}-{index}").is_dir())
    assert node.stop() == 0

    b.rename(tmp_path / "away")
    b.write_text("no directory")
    node.start()
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": QUIET})
    admin.delete_topics([TOPIC])[TOPIC].result(WAIT_SECONDS)
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(WAIT_SECONDS)
    assert Sender(node.bootstrap).send() is None
    assert node.stop() == 0

    b.unlink()
    (tmp_path / "away").rename(b)
    node.start()
    assert Sender(node.bootstrap).send() is None
    assert (a / f"{TOPIC}-{lies_in_b}").is_dir()
    assert not (b / f"{TOPIC}-{lies_in_b}").exists()
    assert node.stop() == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", size_bytes=DISK_BYTES) as path:
        yield path


class Sender:
    """Sends one numbered record at a time and notes which were acked."""

    def __init__(self, bootstrap: str) -> None:
        self.acked: list[bytes] = []
        self._number = 0
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "log_level": QUIET, "retries": 0, "linger.ms": 0}
        )

    def send(self) -> confluent_kafka.KafkaError | None:
        value = b"%d " % self._number + bytes(30_000)
        self._number += 1
        told: list[confluent_kafka.KafkaError | None] = []
        self._producer.produce(TOPIC, value, on_delivery=lambda error, _: told.append(error))
        assert self._producer.flush(WAIT_SECONDS) == 0
        (error,) = told
        if error is None:
            self.acked.append(value)
        return error


@pytest.mark.parametrize("fsync", ["true", "false"])
def test_a_full_disk_refuses_loses_nothing_and_serves_again(disk: Path, fsync: str) -> None:
    node = ServedNode(
        data=disk / "data",
        settings={"penstock.ack.fsync": fsync, "log.segment.bytes": "1048576"},
    )
    node.log = disk.parent / "node.log"  # not on the disk that fills up
    node.start()
    try:
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": QUIET})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(WAIT_SECONDS)
        sender = Sender(node.bootstrap)
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(DISK_BYTES // 2))
        while (error := sender.send()) is None:
            assert len(sender.acked) * 30_000 < DISK_BYTES
        assert error.code() == confluent_kafka.KafkaError.KAFKA_STORAGE_ERROR
        assert sender.send() is not None
        ballast.unlink()
        for _ in range(5):
            assert sender.send() is None
        node.kill()
        assert "full=true" in node.logged()
        node.start()
        assert read_all(node.bootstrap) == sender.acked
    finally:
        if node.running:
            node.stop()


def read_all(bootstrap: str) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": QUIET,
            "group.id": "unused-by-assignment",
            "enable.auto.commit": False,
        }
    )
    partition = confluent_kafka.TopicPartition(TOPIC, 0, 0)
    end_offset = consumer.get_watermark_offsets(partition, timeout=WAIT_SECONDS)[1]
    consumer.assign([partition])
    values: list[bytes] = []
    while len(values) < end_offset:
        (message,) = consumer.consume(1, WAIT_SECONDS)
        assert message.error() is None
        values.append(message.value() or b"")
    consumer.close()
    return values
