"""A topic that is deleted and created again under a running query: one line, and no mix of both."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.spark.error_line import own_error_line
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.serve import ServedNode
from rig.spark_stream import QUERY_SECONDS_MAX, stream_of


def test_query_ends_with_one_line(
    spark: SparkSession,
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    folder: Path,
) -> None:
    name = topic()
    confluent.produce(name, [Message(value=b"old")])
    rows = stream_of(spark, node.bootstrap, name)
    query = rows.writeStream.format("noop").option("checkpointLocation", str(folder)).start()
    try:
        query.processAllAvailable()
        confluent.delete_topic(name)
        confluent.create_topic(name)
        with pytest.raises(StreamingQueryException) as ended:
            query.awaitTermination(QUERY_SECONDS_MAX)
    finally:
        query.stop()
    line = own_error_line(str(ended.value))
    assert line is not None
    # The query may look between the two.
    assert re.match(rf"{name}-0( does not exist any more|: topic {name} was deleted and)", line)
