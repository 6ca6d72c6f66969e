"""How jobs start queries, where they can't."""

import pytest
from pyspark.sql import SparkSession

from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.streams import UpdatesNeedDriver, write_topics


def test_updates_over_spark_connect_are_refused_in_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.range(1)
    place = Place(bootstrap="127.0.0.1:1", folder="unused")
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(UpdatesNeedDriver, match="counts writes updates of rows") as refused:
        write_topics(frame, place, query="counts", topic="t", output_mode="update")
    assert "\n" not in str(refused.value)
