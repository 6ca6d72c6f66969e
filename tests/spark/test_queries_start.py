"""How the queries of a job start, on a machine that has more to do than it can."""

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.streams import CAME_LATE, write_batches


class LateSource(DataSource):
    """Its first process fails as Spark lets one fail that came up too late."""

    @classmethod
    def name(cls) -> str:
        return "late"

    def schema(self) -> str:
        return "number int"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        mark = Path(self.options["mark"])
        if not mark.exists():
            mark.touch()
            raise RuntimeError(CAME_LATE)
        return OneRow()


class OneRow(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"end": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        return iter([(start["end"],)][: 1 - start["end"]]), {"end": 1}

    def readBetweenOffsets(
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[int]]:
        return iter([(number,) for number in range(start["end"], end["end"])])


def test_a_query_whose_source_came_too_late_is_started_again(
    spark: SparkSession, folder: Path
) -> None:
    spark.dataSource.register(LateSource)
    rows = spark.readStream.format("late").option("mark", str(folder / "mark")).load()
    found: list[int] = []

    def take(batch: DataFrame, batch_id: int) -> None:
        found.extend(row.number for row in batch.collect())

    place = Place(bootstrap="nobody:1", folder=str(folder))
    query = write_batches(rows, place, query="late", into=take)
    try:
        assert query.isActive
        query.processAllAvailable()
    finally:
        query.stop()
    assert found == [0]
