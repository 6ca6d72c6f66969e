"""The first steps of docs/spark.md work as they are written."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.serve import ServedNode
from rig.sink_output import committed_records
from rig.spark_program import first_steps


def test_the_first_steps_lead_from_orders_to_invoices(
    spark: SparkSession,
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folder: Path,
) -> None:
    monkeypatch.chdir(folder)
    orders, invoices = topic(partitions=3), topic(partitions=3)
    bought = [Message(key=b"ann", value=b"3"), Message(key=b"bob", value=b"5")]
    confluent.produce(orders, bought)
    program = first_steps(bootstrap=node.bootstrap, orders=orders, invoices=invoices, folder=folder)
    exec(compile(program, "docs/spark.md", "exec"), {})
    assert re.search(r"bob\s*\|\s*5", capsys.readouterr().out)
    written = committed_records(node.bootstrap, invoices)
    assert sorted((one.key, one.value) for one in written) == [
        (b"ann", b"pay 3"),
        (b"bob", b"pay 5"),
    ]


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        ({"realTime": "5 seconds"}, "is not supported in Real-time Mode"),
        ({"continuous": "1 second"}, "penstock does not support continuous processing"),
    ],
)
def test_spark_refuses_a_python_source_the_modes_that_the_guide_names(
    spark: SparkSession,
    node: ServedNode,
    topic: Callable[..., str],
    trigger: dict[str, str],
    said: str,
) -> None:
    reader = spark.readStream.format("penstock").options(subscribe=topic())
    rows = reader.option("kafka.bootstrap.servers", node.bootstrap).load()
    writer = rows.writeStream.format("console").outputMode("update").trigger(**trigger)
    with pytest.raises(PySparkException, match=said):
        writer.start().awaitTermination(60)
