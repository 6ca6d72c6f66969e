"""A query that forgets keys is killed at each point of its sink: in a batch that counts, in the
next one, and in the one that writes tombstones. Each record is there once.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.pipelines.event_time_bounds import HOUR_MS, MINUTE_MS
from penstock.spark.pipelines.generated import START_MS, Event
from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.wordcount.names import LINES
from rig.numbered_rows import make_topics, open_transactions
from rig.serve import ServedNode
from rig.spark_strikes import Where
from rig.stateful.feeding import OUTPUT_PARTITIONS, committed, feed
from rig.stateful.ordeal import POINTS, Ordeal, Victim
from rig.stateful.queries import RECENT_WORD_COUNT, start_query

# A program with four queries takes its time where others are at work.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WORDS = [f"word{number}" for number in range(200)]
LASTING = WORDS[:100]  # come again before they would be forgotten
CLOCK = "clock"  # moves the watermark past the first event of each word


def test_counts_and_tombstones_of_a_query_that_is_killed_at_each_point_are_there_once(
    spark: SparkSession, own_node: ServedNode, folder: Path
) -> None:
    bootstrap = own_node.bootstrap
    victims = [victim_at(where, bootstrap, folder) for where in POINTS]
    make_topics(bootstrap, LINES, partitions=2)
    make_topics(bootstrap, *(victim.name for victim in victims), partitions=OUTPUT_PARTITIONS)
    ordeal = Ordeal(victims, folder=folder / "ordeal", told=print)
    feed(bootstrap, lines(WORDS, at_ms=START_MS))
    ordeal.kill_once()
    feed(bootstrap, lines(LASTING, at_ms=START_MS + HOUR_MS - MINUTE_MS))
    feed(bootstrap, lines([CLOCK], at_ms=START_MS + HOUR_MS + MINUTE_MS))
    ordeal.kill_once()
    ordeal.kill_once()
    for victim in victims:
        for query in start_query(spark, victim.what, victim.place, sink=victim.name):
            query.awaitTermination()
        found: dict[bytes | None, list[bytes | None]] = defaultdict(list)
        for key, value in committed(bootstrap, victim.name):
            found[key].append(value)
        expected: dict[bytes | None, list[bytes | None]] = {
            **{word.encode(): [b"1", None] for word in WORDS},
            **{word.encode(): [b"1", b"2"] for word in LASTING},
            CLOCK.encode(): [b"1"],
        }
        assert found == expected, victim.name
        assert not [one for one in open_transactions(bootstrap) if one.startswith(victim.name)]


def victim_at(where: Where, bootstrap: str, folder: Path) -> Victim:
    name = f"{RECENT_WORD_COUNT}.{where}"
    place = Place(
        bootstrap=bootstrap,
        folder=str(folder / "pipelines"),
        once=True,
        batch_records_max=None,
        forget_after_ms=HOUR_MS,
    )
    return Victim(what=RECENT_WORD_COUNT, where=where, place=place, name=name, sinks=(name,))


def lines(words: Sequence[str], *, at_ms: int) -> list[Event]:
    return [Event(LINES, None, word.encode(), at_ms) for word in words]
