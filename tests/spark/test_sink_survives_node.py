"""A node may be killed and started again while a batch is being ended: its rows count once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rig.numbered_rows import judge_topic, make_topics, write_numbers
from rig.serve import ServedNode
from rig.spark_query import Carrying, start
from rig.spark_strikes import NAME, Strike, StruckDataSource, Where

ROWS = 48
BATCH = 1


@pytest.fixture(scope="module")
def mortal_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    served = ServedNode(
        data=tmp_path_factory.mktemp("mortal") / "node",
        settings={
            "auto.create.topics.enable": "false",
            "transaction.two.phase.commit.enable": "true",
        },
    )
    served.start()
    yield served
    assert served.stop() == 0


@pytest.mark.parametrize(
    "where", [Where.TASK_SLOW, Where.BEFORE_DECISION, Where.AFTER_DECISION, Where.BETWEEN_COMMITS]
)
def test_rows_are_there_once_when_the_node_was_killed_on_the_way(
    spark: SparkSession, mortal_node: ServedNode, folder: Path, where: Where
) -> None:
    spark.dataSource.register(StruckDataSource)
    bootstrap = mortal_node.bootstrap
    source, sink = f"{where.value}-in", f"{where.value}-out"
    make_topics(bootstrap, source, sink, partitions=2)
    write_numbers(bootstrap, source, range(ROWS))
    strike = Strike(where=where, batch=BATCH, folder=folder)
    query = start(
        spark,
        Carrying(
            bootstrap=bootstrap,
            source=source,
            sink=sink,
            checkpoint=str(folder / "checkpoint"),
            rows_per_batch=ROWS // 2,
            writer=NAME,
            writer_options=strike.options,
        ),
    )
    strike.await_reached()
    mortal_node.kill()
    mortal_node.start()
    strike.release()
    query.awaitTermination()
    assert not judge_topic(bootstrap, sink, count=ROWS).faults
