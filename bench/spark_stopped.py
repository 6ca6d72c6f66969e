"""Queries that are stopped in the middle of a batch: five seconds later nothing of them is open."""

import random
import time
from collections.abc import Callable
from pathlib import Path

from spark_ordeal import Outcome, Progress, Scenario

import penstock.spark
from rig.numbered_rows import Judgement, judge_topic
from rig.small_spark import SMALL_SPARK
from rig.spark_query import carry
from rig.spark_stops import ROWS, all_at_once, open_of, stopped_query, to_be_stopped

NAME = "query stopped in mid-batch"
STOPS_EACH = 5  # of one query, which goes on between them
PAUSE_SECONDS_MAX = 1.0
LATER_SECONDS = 5.0


def stop_queries(
    bootstrap: str,
    folder: Path,
    *,
    count: int,
    dice: random.Random,
    told: Callable[[Progress], None],
) -> Outcome:
    """Stops `count` times; what was open five seconds after any of them is a fault."""
    folder.mkdir(parents=True)
    progress = Progress(
        scenario=Scenario(name=NAME, batches=count, rows_a_batch=ROWS // STOPS_EACH)
    )
    left: list[str] = []
    spark = penstock.spark.session(
        "stopped",
        master="local[2,3]",
        **SMALL_SPARK,
        **{"spark.sql.warehouse.dir": str(folder / "warehouse")},
    )
    judged: list[Judgement] = []
    try:
        while progress.batches < count:
            carrying = to_be_stopped(bootstrap, folder, f"stopped-{len(judged)}")
            for _ in range(min(STOPS_EACH, count - progress.batches)):
                stopped_query(
                    spark,
                    carrying,
                    pause=lambda: time.sleep(dice.uniform(0, PAUSE_SECONDS_MAX)),
                )
                time.sleep(LATER_SECONDS)
                left += open_of(bootstrap, carrying.writer_options["sinkId"])
                progress.batches += 1
                progress.lives += 1
                told(progress)
            carry(spark, all_at_once(carrying))
            judged.append(judge_topic(bootstrap, carrying.sink, count=ROWS, ids="stopped-"))
    finally:
        spark.stop()
    judgement = Judgement(
        rows=sum(one.rows for one in judged),
        duplicates=sum(one.duplicates for one in judged),
        missing=sum(one.missing for one in judged),
        foreign=sum(one.foreign for one in judged),
        out_of_order=sum(one.out_of_order for one in judged),
        open_transactions=(*left, *(name for one in judged for name in one.open_transactions)),
    )
    return Outcome(
        scenario=progress.scenario,
        judgement=judgement,
        progress=progress,
        seconds=progress.seconds,
    )
