"""Committed offsets outlive restarts, kills in the middle of commits, and compaction."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.log.layout import LOG
from rig.clients.confluent import QUIET
from rig.running_node import running_node
from rig.serve import ServedNode

TOPIC = "ledger"
PARTITIONS = 4
KILLS = 5
COMMITS_BEFORE_A_KILL = 150
PATIENCE_SECONDS = 120.0


def consumer(bootstrap: str, group: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "log_level": QUIET,
            "enable.auto.commit": False,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
        }
    )


def make_topic(bootstrap: str, name: str = TOPIC) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": QUIET})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(PATIENCE_SECONDS)


def commit(bootstrap: str, group: str, offset: int, *, topic: str = TOPIC) -> None:
    client = consumer(bootstrap, group)
    offsets = [TopicPartition(topic, index, offset + index) for index in range(PARTITIONS)]
    client.commit(offsets=offsets, asynchronous=False)
    client.close()


def committed(bootstrap: str, group: str, *, topic: str = TOPIC) -> list[int]:
    client = consumer(bootstrap, group)
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    found = client.committed(places, timeout=PATIENCE_SECONDS)
    client.close()
    return [place.offset for place in found]


class Committer:
    """Commits ever higher offsets on a thread of its own, whatever becomes of the node."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.group = group
        self.acked = 0
        self.asked = 0
        self._over = False
        self._changed = threading.Condition()
        self._client = consumer(bootstrap, group)
        self._thread = threading.Thread(target=self._run, name=group)
        self._thread.start()

    def await_acks(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.acked >= count, PATIENCE_SECONDS)

    def finish(self) -> None:
        self._over = True
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        self._client.close()

    def _run(self) -> None:
        while not self._over:
            self.asked += 1
            offsets = [TopicPartition(TOPIC, index, self.asked) for index in range(PARTITIONS)]
            try:
                told = self._client.commit(offsets=offsets, asynchronous=False)
            except confluent_kafka.KafkaException:
                continue  # the next one goes further
            if told is not None and all(place.error is None for place in told):
                with self._changed:
                    self.acked = self.asked
                    self._changed.notify_all()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    served = ServedNode(data=tmp_path / "data", settings={"offsets.topic.num.partitions": "5"})
    served.start()
    yield served
    if served.running:
        served.kill()


def test_no_acked_commit_is_lost_and_none_goes_back_when_the_node_is_killed(
    node: ServedNode,
) -> None:
    make_topic(node.bootstrap)
    committers = [Committer(node.bootstrap, f"group-{number}") for number in range(3)]
    try:
        for kill in range(1, KILLS + 1):
            for committer in committers:
                committer.await_acks(committer.acked + COMMITS_BEFORE_A_KILL)
            node.kill()
            acked = {committer.group: committer.acked for committer in committers}
            node.start()
            for group, least in acked.items():
                found = committed(node.bootstrap, group)
                assert min(found) >= least, (kill, group)
    finally:
        for committer in committers:
            committer.finish()
    for committer in committers:
        found = committed(node.bootstrap, committer.group)
        assert all(committer.acked <= offset <= committer.asked for offset in found)
        assert len(set(found)) == 1, "one commit is all or nothing"


def test_offsets_are_there_after_a_clean_stop(tmp_path: Path) -> None:
    for round_number in range(3):
        with running_node(tmp_path) as running:
            if round_number == 0:
                make_topic(running.bootstrap)
            else:
                before = 100 * (round_number - 1)
                assert committed(running.bootstrap, "g") == [before + n for n in range(PARTITIONS)]
            commit(running.bootstrap, "g", 100 * round_number)


def test_the_offsets_of_a_deleted_topic_are_gone(tmp_path: Path) -> None:
    with running_node(tmp_path, offsets_topic_num_partitions="1") as running:
        for name in (TOPIC, "kept"):
            make_topic(running.bootstrap, name)
            commit(running.bootstrap, "g", 5, topic=name)
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": QUIET})
        admin.delete_topics([TOPIC])[TOPIC].result(PATIENCE_SECONDS)
        make_topic(running.bootstrap)
        assert committed(running.bootstrap, "g") == [-1001] * PARTITIONS
        assert committed(running.bootstrap, "g", topic="kept") == [5, 6, 7, 8]
    with running_node(tmp_path) as running:
        assert committed(running.bootstrap, "g") == [-1001] * PARTITIONS
        assert committed(running.bootstrap, "g", topic="kept") == [5, 6, 7, 8]


def test_the_offsets_topic_is_internal(tmp_path: Path) -> None:
    with running_node(tmp_path) as running:
        make_topic(running.bootstrap)
        commit(running.bootstrap, "g", 5)
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": QUIET})
        described = admin.describe_topics(confluent_kafka.TopicCollection([OFFSETS_TOPIC]))[
            OFFSETS_TOPIC
        ].result(PATIENCE_SECONDS)
        assert described.is_internal
        assert len(described.partitions) == 50


def test_compaction_leaves_the_last_offsets_and_a_restart_replays_those(tmp_path: Path) -> None:
    commits = 400
    settings = {
        "offsets_topic_num_partitions": "1",
        "log_cleaner_backoff_ms": "50",
        "log_cleaner_min_cleanable_ratio": "0.01",
    }
    journal = tmp_path / "node-1" / f"{OFFSETS_TOPIC}-0"
    with running_node(tmp_path, **settings) as running:
        make_topic(running.bootstrap)
        client = consumer(running.bootstrap, "g")
        for offset in range(commits):
            client.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
            if offset == 0:
                shrink_segments(running.bootstrap)
        client.close()
        written = sum(path.stat().st_size for path in journal.glob(f"*{LOG}"))
        wait_until_smaller(journal, written // 4)
    with running_node(tmp_path, **settings) as running:
        assert committed(running.bootstrap, "g")[0] == commits - 1


def shrink_segments(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": QUIET})
    resource = confluent_kafka.admin.ConfigResource("topic", OFFSETS_TOPIC)
    resource.add_incremental_config(
        confluent_kafka.admin.ConfigEntry(
            "internal.segment.bytes",
            "2000",
            incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET,
        )
    )
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_SECONDS)


def wait_until_smaller(journal: Path, size_bytes: int) -> None:
    """Compaction runs beside everything else, and tells nobody when it is done."""
    waiting = threading.Event()
    for _ in range(int(PATIENCE_SECONDS * 50)):
        with contextlib.suppress(FileNotFoundError):  # removed as we looked at it
            if sum(path.stat().st_size for path in journal.glob(f"*{LOG}")) <= size_bytes:
                return
        waiting.wait(0.02)
    raise AssertionError(f"{journal} has not become smaller than {size_bytes}")
