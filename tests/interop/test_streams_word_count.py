"""Kafka Streams with `exactly_once_v2`: every word is counted once, whoever is killed."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rig.clients.confluent import ConfluentClient
from rig.serve import ServedNode
from rig.word_count import COUNTS, LINES, PARTITIONS, Counts, Lines, WordCount

COUNTS_BETWEEN_KILLS = 300


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    settings = {
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
    }
    one = ServedNode(data=tmp_path / "node", settings=settings)
    one.start()
    with closing(ConfluentClient(one.bootstrap)) as admin:
        for topic in (LINES, COUNTS):
            admin.create_topic(topic, partitions=PARTITIONS)
    yield one
    assert one.stop() == 0


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
