"""A topic that does not exist is created by the brokers' rule, or refused before tasks begin."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rig.serve import ServedNode
from rig.sink_output import committed_records, none_left_open

ROWS = 20
MODES = ["exactly_once", "at_least_once"]
REFUSED = (
    "penstock.spark.sink.errors.MissingTopic: topic {} does not exist and the brokers do not"
    " create topics (auto.create.topics.enable=false): create it before it is written to"
)
TWO_PHASE = {"transaction.two.phase.commit.enable": "true"}


@pytest.fixture(scope="module")
def creating_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    """A node that creates topics, as it does by default."""
    served = ServedNode(data=tmp_path_factory.mktemp("creating") / "node", settings=TWO_PHASE)
    served.start()
    yield served
    assert served.stop() == 0


@pytest.mark.parametrize("mode", MODES)
def test_write_creates_its_topic(spark: SparkSession, creating_node: ServedNode, mode: str) -> None:
    save(rows(spark), creating_node, delivery=mode, topic=f"option-{mode}")
    assert len(committed_records(creating_node.bootstrap, f"option-{mode}")) == ROWS


@pytest.mark.parametrize("mode", MODES)
def test_write_creates_the_topics_of_its_column(
    spark: SparkSession, creating_node: ServedNode, mode: str
) -> None:
    topics = [f"column-{mode}-{number}" for number in range(2)]
    frame = rows(spark).selectExpr("value", f"concat('column-{mode}-', value % 2) AS topic")
    save(frame, creating_node, delivery=mode)
    found = [len(committed_records(creating_node.bootstrap, topic)) for topic in topics]
    assert found == [ROWS // 2, ROWS // 2]


@pytest.mark.parametrize("mode", MODES)
def test_query_creates_its_topic(
    spark: SparkSession, creating_node: ServedNode, folder: Path, mode: str
) -> None:
    run_query(spark, creating_node, folder, delivery=mode, topic=f"query-{mode}")
    assert len(committed_records(creating_node.bootstrap, f"query-{mode}")) == ROWS


@pytest.mark.parametrize("mode", MODES)
def test_write_to_a_topic_that_is_not_created_is_refused_before_its_tasks(
    spark: SparkSession, node: ServedNode, mode: str
) -> None:
    spark.sparkContext.setJobGroup(f"missing-{mode}", "a write that is refused")
    with pytest.raises(Exception, match="MissingTopic") as refused:
        save(rows(spark), node, delivery=mode, topic="missing")
    assert REFUSED.format("missing") in str(refused.value).splitlines()
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(f"missing-{mode}") == []


@pytest.mark.parametrize("mode", MODES)
def test_query_for_a_topic_that_is_not_created_is_refused_before_its_tasks(
    spark: SparkSession, node: ServedNode, folder: Path, mode: str
) -> None:
    with pytest.raises(Exception, match="MissingTopic") as refused:
        run_query(spark, node, folder, delivery=mode, topic="missing")
    assert REFUSED.format("missing") in str(refused.value).splitlines()
    assert "Lost task" not in str(refused.value)


@pytest.mark.parametrize("mode", MODES)
def test_topic_of_a_column_that_is_not_created_is_refused_by_the_task(
    spark: SparkSession, node: ServedNode, mode: str
) -> None:
    frame = rows(spark).selectExpr("value", "'missing' AS topic")
    with none_left_open(node.bootstrap), pytest.raises(Exception, match="MissingTopic") as refused:
        save(frame, node, delivery=mode)
    assert REFUSED.format("missing") in str(refused.value).splitlines()


def rows(spark: SparkSession) -> DataFrame:
    return spark.range(ROWS).selectExpr("cast(id as string) AS value")


def save(frame: DataFrame, node: ServedNode, **options: str) -> None:
    options["kafka.bootstrap.servers"] = node.bootstrap
    frame.write.format("penstock").mode("append").options(**options).save()


def run_query(spark: SparkSession, node: ServedNode, folder: Path, **options: str) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "rows.txt").write_text("".join(f"{row}\n" for row in range(ROWS)))
    query = (
        spark.readStream.text(str(folder / "in"))
        .writeStream.format("penstock")
        .options(**{"kafka.bootstrap.servers": node.bootstrap, **options})
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
