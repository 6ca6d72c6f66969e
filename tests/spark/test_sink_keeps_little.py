"""What a sink hands to its tasks, and remembers, is small however many tasks a batch has had."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from penstock.client.admin.admin import Admin, NewTopic
from penstock.spark.options import ConnectionOptions
from penstock.spark.sink.batch import BatchSink
from penstock.spark.sink.options import BatchIdentity, SinkOptions
from rig.serve import ServedNode
from rig.sink_shell import DECISIONS, QUERY, SinkShell, claimed, decided, with_sink

TOPIC = "rows"
TASKS = 5


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    two_phase = {"transaction.two.phase.commit.enable": "true"}
    served = ServedNode(data=tmp_path / "node", settings=two_phase)
    served.start()
    yield served
    assert served.stop() == 0


@pytest.mark.parametrize("run_id", ["run", "next-run"])
def test_tasks_of_foreach_batch_are_not_told_the_transactions_of_the_batch_before(
    node: ServedNode, run_id: str
) -> None:
    async def write_first_batch(shell: SinkShell) -> str:
        await Admin(shell.cluster).create_topics([NewTopic(name=TOPIC, partitions=1)])
        await claimed(shell, "run")
        numbers = range(TASKS)
        rows = [await shell.write(b"row", run_id="run", partition=number) for number in numbers]
        await decided(shell, "run", 0, *rows)
        return shell.sink

    sink = with_sink(node.bootstrap, TOPIC, write_first_batch)
    options = SinkOptions(
        connection=ConnectionOptions(bootstrap=node.bootstrap),
        topic=TOPIC,
        sink_id=sink,
        decision_topic=DECISIONS,
        identity=BatchIdentity(query_id=QUERY, run_id=run_id, batch_id=1),
    )
    schema = StructType([StructField("value", BinaryType())])
    sent = pickle.loads(pickle.dumps(BatchSink(options, schema, overwrite=False)))
    last = sent.plan.found.decided
    assert last.batch_id == 0
    assert last.transactions == ()
