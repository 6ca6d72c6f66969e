"""The whole shop against a node and a PostgreSQL: every output is proven."""

from itertools import islice
from pathlib import Path

import psycopg
from pyspark.sql import SparkSession

from penstock.spark.pipelines.commerce import job, names
from penstock.spark.pipelines.commerce.generate import events
from penstock.spark.pipelines.commerce.proof import OUTPUTS, Output, Proof
from penstock.spark.pipelines.place import Place
from rig.pipeline_input import make_topics, produce
from rig.serve import ServedNode
from rig.sink_output import committed_records, open_transactional_ids

COUNT = 1_000


def test_every_output_follows_from_the_events(
    spark: SparkSession, node: ServedNode, folder: Path, postgres: str
) -> None:
    make_topics(node.bootstrap, "commerce")
    proof, story = Proof(), list(islice(events(1), COUNT))
    for event in story:
        proof.take(event)
    produce(node.bootstrap, story)
    place = Place(bootstrap=node.bootstrap, folder=str(folder), postgres=postgres, once=True)
    for query in job.start(spark, place):
        query.awaitTermination()
    found = {
        topic: [
            Output((one.key or b"").decode(), one.value or b"")
            for one in committed_records(node.bootstrap, topic)
        ]
        for topic in OUTPUTS
    }
    with psycopg.connect(postgres) as connection:
        table: dict[str, int] = dict(
            connection.execute(f"SELECT sku, level FROM {names.STOCK_TABLE}").fetchall()
        )
    findings = proof.findings(found, table)
    assert all(finding.rows > 0 for finding in findings if finding.what != names.STOCK_ALERTS)
    assert [finding for finding in findings if not finding.proven] == []
    ours = [one for one in open_transactional_ids(node.bootstrap) if one.startswith("commerce.")]
    assert ours == []
