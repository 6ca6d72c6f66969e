"""What a sink hands to its tasks, and remembers, is small however many tasks a batch has had."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from penstock.client.admin.admin import Admin, NewTopic
from penstock.model.identity import TopicId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.spark.options import ConnectionOptions
from penstock.spark.sink.batch import BatchSink
from penstock.spark.sink.decision import Claim, Decided, Prepared, SinkRecord
from penstock.spark.sink.decision_topic import Known, LogIdentity, RememberedSinks
from penstock.spark.sink.options import BatchIdentity, SinkOptions
from rig.serve import ServedNode
from rig.sink_shell import DECISIONS, QUERY, SinkShell, claimed, decided, with_sink

TOPIC = "rows"
TASKS = 5
LOG = LogIdentity(
    cluster_id="cluster", topic_id=TopicId(bytes(16)), partition=0, leader_epoch=LeaderEpoch(4)
)
DECIDED = Decided(
    query_id=QUERY,
    batch_id=0,
    transactions=(Prepared(transactional_id="task", producer_id=1, epoch=0),),
    two_phase=True,
)
RECORD = SinkRecord(claim=Claim(query_id=QUERY, run_id="run"), decided=DECIDED, is_done=True)
KNOWN = Known(log=LOG, record=RECORD, position=Offset(9))


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


def test_transactions_of_a_complete_batch_are_not_remembered() -> None:
    sinks = RememberedSinks()
    sinks.note(KNOWN, topic=DECISIONS, sink="sink")
    assert sinks.find(LOG, topic=DECISIONS, sink="sink") == replace(KNOWN, record=RECORD.for_tasks)


def test_decision_that_is_not_complete_is_read_again_from_where_the_one_before_ended() -> None:
    sinks = RememberedSinks()
    sinks.note(KNOWN, topic=DECISIONS, sink="sink")
    later = replace(KNOWN, record=replace(RECORD, is_done=False), position=Offset(12))
    sinks.note(later, topic=DECISIONS, sink="sink")
    found = sinks.find(LOG, topic=DECISIONS, sink="sink")
    assert found is not None
    assert found.position == KNOWN.position


def test_sink_is_remembered_once_whichever_leader_its_partition_has() -> None:
    sinks = RememberedSinks()
    elected = LOG._replace(leader_epoch=LeaderEpoch(5))
    for log in (LOG, elected):
        sinks.note(replace(KNOWN, log=log), topic=DECISIONS, sink="sink")
    assert len(sinks) == 1
    assert sinks.find(LOG, topic=DECISIONS, sink="sink") is None
    assert sinks.find(elected, topic=DECISIONS, sink="sink") is not None


def test_single_writes_are_not_remembered() -> None:
    sinks = RememberedSinks()
    for record in (replace(RECORD, once=True), None):
        sinks.note(replace(KNOWN, record=record), topic=DECISIONS, sink="write-1")
    assert len(sinks) == 0
