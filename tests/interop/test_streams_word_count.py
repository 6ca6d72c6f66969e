"""Kafka Streams with `exactly_once_v2`: every word is counted once, whoever is killed."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rig.clients.confluent import ConfluentClient
from rig.cluster_questions import until
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware, ReplicatedCluster
from rig.failover.killed_node import KilledNode, open_transactions
from rig.serve import ServedNode
from rig.word_count import COUNTS, LINES, PARTITIONS, Counts, Lines, WordCount

pytestmark = pytest.mark.slow

COUNTS_BETWEEN_KILLS = 300
NODE_KILLS = 5
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    one = ServedNode(data=tmp_path / "node", settings=SETTINGS)
    one.start()
    make_topics(one.bootstrap)
    yield one
    assert one.stop() == 0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    settings = {**BRISK_SESSIONS, **SETTINGS}
    with ReplicatedCluster(PenstockSoftware(), tmp_path, settings=settings) as made:
        made.start()
        make_topics(made.bootstrap)
        yield made


def make_topics(bootstrap: str) -> None:
    with closing(ConfluentClient(bootstrap)) as admin:
        for topic in (LINES, COUNTS):
            admin.create_topic(topic, partitions=PARTITIONS)


def test_killed_with_its_state_lost_it_counts_every_word_once(
    streams_jars: Path, node: ServedNode, tmp_path: Path
) -> None:
    with (
        closing(Counts(node.bootstrap)) as counts,
        closing(WordCount(jars=streams_jars, folder=tmp_path, bootstrap=node.bootstrap)) as words,
    ):
        with closing(Lines(node.bootstrap)) as lines:
            words.start()
            counts.await_more(COUNTS_BETWEEN_KILLS)
            words.kill()
            words.start()
            counts.await_more(COUNTS_BETWEEN_KILLS)
            node.kill()
            node.start()
            counts.await_more(COUNTS_BETWEEN_KILLS)
        counts.await_all(lines.said)
        assert counts.wrong == []


def test_it_counts_every_word_once_while_leaders_of_three_nodes_are_killed(
    streams_jars: Path, cluster: ReplicatedCluster, tmp_path: Path
) -> None:
    node = KilledNode(cluster, topics=(LINES, COUNTS), seed=3)
    with (
        closing(Counts(cluster.bootstrap)) as counts,
        closing(WordCount(jars=streams_jars, folder=tmp_path, bootstrap=node.bootstrap)) as words,
    ):
        with closing(Lines(cluster.bootstrap)) as lines:
            words.start()
            for _ in range(NODE_KILLS):
                counts.await_more(COUNTS_BETWEEN_KILLS)
                node.kill()
                node.start()
            words.kill()
            words.start()
            counts.await_more(COUNTS_BETWEEN_KILLS)
        counts.await_all(lines.said)
        assert counts.wrong == []
        until("no transaction is open", lambda: not open_transactions(cluster))
