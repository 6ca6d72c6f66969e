"""A query with state is killed at each point of its sink, and counts as if it never had been.

bench/stateful_ordeal.py does it at length: more queries, 20 kills at each point, 5 MB a task.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.pipelines.place import Place
from rig.numbered_rows import open_transactions
from rig.serve import ServedNode
from rig.stateful.feeding import feed, prepare, states
from rig.stateful.ordeal import POINTS, Ordeal, Victim
from rig.stateful.queries import WORD_COUNT, start_query
from rig.stateful.word_count import WordCountStory

# A program with four queries takes its time where others are at work.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_words_are_counted_once_by_queries_that_are_killed_at_each_point(
    spark: SparkSession, own_node: ServedNode, folder: Path
) -> None:
    story = WordCountStory(seed=1, words=500)
    victims = [
        Victim(
            what=WORD_COUNT,
            where=where,
            place=Place(
                bootstrap=own_node.bootstrap,
                folder=str(folder / "pipelines"),
                once=True,
                batch_records_max=None,
            ),
            name=f"{WORD_COUNT}.{where}",
            sinks=(f"{WORD_COUNT}.{where}",),
        )
        for where in POINTS
    ]
    prepare(own_node.bootstrap, story, *(victim.name for victim in victims))
    feed(own_node.bootstrap, story.batch())
    ordeal = Ordeal(victims, folder=folder / "ordeal", told=print)
    ordeal.kill_once()
    feed(own_node.bootstrap, story.batch())
    for victim in victims:
        for query in start_query(spark, victim.what, victim.place, sink=victim.name):
            query.awaitTermination()
        left = [one for one in open_transactions(own_node.bootstrap) if one.startswith(victim.name)]
        found = states(own_node.bootstrap, victim.name, story)
        verdict = story.truth.judge(found, left_open=len(left))
        assert verdict.is_good, f"{victim.name}: {verdict}"
        assert verdict.found > 900
