"""The steps that remember something, as streams: batch after batch, compared with a plain loop."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pyarrow
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.pipelines.clickstream import fraud, steps
from penstock.spark.pipelines.clickstream.generate import Act, acts
from rig.clickstream import closed_sessions, known_profiles, planted_frauds

RECORDS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
BATCHES = 2


def test_sessions_are_told_once_and_only_when_they_are_over(
    spark: SparkSession, folder: Path
) -> None:
    made = story(1_200)
    found = streamed(spark, folder, made, steps.sessions, "sessions", "append")
    told = [
        (row.user_id, row.started_at_ms, row.ended_at_ms, row.events, row.revenue_cents)
        for row in found.collect()
    ]
    assert len(told) == len(set(told)) > 20
    assert set(told) == closed_sessions(made)


def test_the_latest_profile_of_a_user_is_of_all_batches(spark: SparkSession, folder: Path) -> None:
    made = story(1_000)
    found = streamed(spark, folder, made, steps.profiles, "profiles", "update")
    latest = {row.user_id: row for row in sorted(found.collect(), key=lambda row: row.events)}
    told = {
        user: (row.events, row.last_seen_at_ms, row.spent_cents) for user, row in latest.items()
    }
    assert told == known_profiles(made)


def test_each_planted_fraud_is_one_alert_and_nothing_else_is(
    spark: SparkSession, folder: Path
) -> None:
    made = story(1_200)
    found = streamed(
        spark,
        folder,
        made,
        lambda events: fraud.alerts(steps.signals(events)),
        "alerts",
        "append",
    )
    told = Counter((row.rule, row.subject) for row in found.collect())
    assert told == planted_frauds(made)
    assert len({rule for rule, _ in told}) == 3


def story(count: int) -> list[Act]:
    return list(islice(acts(11, users=40), count))


def streamed(
    spark: SparkSession,
    folder: Path,
    made: Sequence[Act],
    step: Callable[[DataFrame], DataFrame],
    name: str,
    output_mode: str,
) -> DataFrame:
    """What a stream of the step has told, after all batches."""
    size = len(made) // BATCHES + 1
    for number in range(BATCHES):
        write(folder / f"{number}.parquet", made[number * size : (number + 1) * size])
    source = spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", 1)
    events = steps.sound(steps.parsed(source.parquet(str(folder / "*.parquet"))))
    query = (
        step(events)
        .writeStream.format("memory")
        .queryName(name)
        .outputMode(output_mode)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.table(name)


def write(path: Path, made: Sequence[Act]) -> None:
    columns = {
        "key": [act.event.key for act in made],
        "value": [act.event.value for act in made],
        "topic": ["t"] * len(made),
        "partition": pyarrow.array([0] * len(made), pyarrow.int32()),
        "offset": list(range(len(made))),
        "timestamp": [datetime.fromtimestamp(act.event.timestamp_ms / 1000, UTC) for act in made],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
