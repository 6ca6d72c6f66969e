"""The record of a sink in the decision topic is read as it was written, also by a later version."""

import json
import pickle
import uuid
from dataclasses import replace
from random import Random

import pytest

from penstock.model.identity import TopicId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.compression import Codec, compress
from penstock.spark.sink.decision import (
    Claim,
    Decided,
    GivenUp,
    Prepared,
    SinkRecord,
    UnreadableDecision,
    Witness,
    decode,
    encode,
)
from penstock.spark.sink.decision_topic import Known, LogIdentity
from penstock.spark.sink.driver import Plan
from penstock.spark.sink.flows import is_decided
from penstock.spark.sink.names import TaskNumbers, first_attempt, is_behind
from penstock.spark.sink.options import SINK_ID_MAX

TASKS = 20_000
MESSAGE_BYTES_MAX = 1_048_588  # what a broker takes, unless it is told otherwise
CLAIM = Claim(query_id="query", run_id="run", driver="place")
LOG = LogIdentity(
    cluster_id="cluster",
    topic_id=TopicId(bytes(16)),
    partition=0,
    leader_epoch=LeaderEpoch(0),
)
WITNESS = Witness(topic="orders", partition=3, offset=77)
WRITTEN = Prepared(transactional_id="sink.run.0.0.0.1", producer_id=5, epoch=2, witness=WITNESS)
DECIDED = Decided(query_id="query", batch_id=9, transactions=(WRITTEN,), two_phase=True)
RECORDS = [
    SinkRecord(claim=CLAIM),
    SinkRecord(claim=CLAIM, decided=DECIDED, is_done=False, former=("a", "b")),
    SinkRecord(claim=CLAIM, decided=DECIDED, given_up=GivenUp(run_id="run", batch_id=10)),
    SinkRecord(claim=CLAIM, given_up=GivenUp(run_id="run", batch_id=None)),
]


def large_record(*, two_phase: bool) -> SinkRecord:
    """A decision of as many tasks as Spark is likely to have, of a sink with a long name."""
    dice = Random(1)
    transactions = []
    for number in range(TASKS):
        task = TaskNumbers(partition=number, attempt=0, unique=10**6 + number)
        sink, run_id = "s" * SINK_ID_MAX, str(uuid.UUID(int=1))
        attempt = first_attempt(sink, run_id, 10**6, task, two_phase=two_phase)
        place = Witness(
            topic=f"orders-{number % 3}", partition=number % 1000, offset=dice.randrange(10**10)
        )
        transactions.append(
            Prepared(
                transactional_id=attempt.transactional_id,
                producer_id=10**6 + dice.randrange(2 * TASKS),
                epoch=dice.randrange(1000),
                witness=place,
            )
        )
    decided = replace(DECIDED, transactions=tuple(transactions))
    return SinkRecord(claim=CLAIM, decided=decided, is_done=False)


@pytest.mark.parametrize("record", RECORDS)
def test_record_is_read_as_it_was_written(record: SinkRecord) -> None:
    found = decode(encode(record))
    assert found == record
    if record.decided is not None and found.decided is not None:
        # Which is no part of a transaction's identity, and so not compared above.
        assert [one.witness for one in found.decided.transactions] == [WITNESS]


@pytest.mark.parametrize("two_phase", [True, False])
def test_decision_of_20_000_tasks_fits_into_a_message(two_phase: bool) -> None:
    record = large_record(two_phase=two_phase)
    data = encode(record)
    assert len(compress(Codec.GZIP, data)) < MESSAGE_BYTES_MAX / 2
    if two_phase:
        assert len(data) < MESSAGE_BYTES_MAX
    found = decode(data)
    assert found == record
    assert found.decided is not None
    assert record.decided is not None
    witnesses = [one.witness for one in record.decided.transactions]
    assert [one.witness for one in found.decided.transactions] == witnesses


def test_tasks_are_not_told_the_transactions_of_a_batch_that_is_complete() -> None:
    record = large_record(two_phase=True)
    known = Known(log=LOG, record=record, position=Offset(9))
    plan = Plan(sink="sink", place="place", two_phase=True, known=known)
    assert plan.for_tasks == plan
    done = replace(plan, known=replace(known, record=replace(record, is_done=True)))
    assert len(pickle.dumps(done.for_tasks)) < 2_000
    assert is_decided(CLAIM, 9, done.for_tasks.found)


def test_record_of_version_1_is_read() -> None:
    early = json.loads(encode(RECORDS[1])) | {"version": 1}
    early["decided"]["transactions"] = [["sink.run.0.0.0.1", 5, 2, "orders", 3, 77]]
    found = decode(json.dumps(early).encode())
    assert found == RECORDS[1]
    assert found.decided is not None
    assert found.decided.transactions[0].witness == WITNESS


def test_record_of_a_version_that_knew_neither_witnesses_nor_what_was_given_up_is_read() -> None:
    early = json.loads(encode(RECORDS[1])) | {"version": 1}
    del early["given_up"]
    early["decided"]["transactions"] = [["sink.run.0.0.0.1", 5, 2]]
    found = decode(json.dumps(early).encode())
    assert found == RECORDS[1]
    assert found.decided is not None
    assert found.decided.transactions[0].witness is None


def wrong_transactions(packed: object) -> dict[str, object]:
    return {"query": "query", "batch": 9, "two_phase": True, "transactions": packed}


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("given_up", {"run": "run"}),
        ("given_up", []),
        ("decided", {"query": "query"}),
        (
            "decided",
            wrong_transactions({"prefix": "", "topics": [], "rows": [["", 1, 1, 5, 0, 0]]}),
        ),
        ("decided", wrong_transactions({"prefix": "", "topics": []})),
    ],
)
def test_record_that_no_sink_wrote_is_told(name: str, wrong: object) -> None:
    found = json.loads(encode(RECORDS[1])) | {name: wrong}
    with pytest.raises(UnreadableDecision, match="not a decision of a sink"):
        decode(json.dumps(found).encode())


def test_batch_and_those_before_it_are_given_up_and_none_after_it() -> None:
    given_up = GivenUp(run_id="run", batch_id=4)
    assert [given_up.names("run", batch_id) for batch_id in (3, 4, 5)] == [True, True, False]
    assert not given_up.names("another", 4)
    assert GivenUp(run_id="run", batch_id=None).names("run", 5)


@pytest.mark.parametrize("two_phase", [True, False])
def test_attempts_of_the_next_batch_are_not_behind_the_last_decision(two_phase: bool) -> None:
    task = TaskNumbers(partition=0, attempt=0, unique=1)
    of_batch = [first_attempt("sink", "run", one, task, two_phase=two_phase) for one in range(4)]
    behind = [is_behind(one, 2, two_phase=two_phase) for one in of_batch]
    assert behind[2:] == [True, False]
    assert behind[0]
