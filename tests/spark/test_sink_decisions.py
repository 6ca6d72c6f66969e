"""The record of a sink in the decision topic is read as it was written, also by a later version."""

import json

import pytest

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
from penstock.spark.sink.names import TaskNumbers, first_attempt, is_behind

CLAIM = Claim(query_id="query", run_id="run", driver="place")
WITNESS = Witness(topic="orders", partition=3, offset=77)
WRITTEN = Prepared(transactional_id="sink.run.0.0.0.1", producer_id=5, epoch=2, witness=WITNESS)
DECIDED = Decided(query_id="query", batch_id=9, transactions=(WRITTEN,), two_phase=True)
RECORDS = [
    SinkRecord(claim=CLAIM),
    SinkRecord(claim=CLAIM, decided=DECIDED, is_done=False, former=("a", "b")),
    SinkRecord(claim=CLAIM, decided=DECIDED, given_up=GivenUp(run_id="run", batch_id=10)),
    SinkRecord(claim=CLAIM, given_up=GivenUp(run_id="run", batch_id=None)),
]


@pytest.mark.parametrize("record", RECORDS)
def test_record_is_read_as_it_was_written(record: SinkRecord) -> None:
    found = decode(encode(record))
    assert found == record
    if record.decided is not None and found.decided is not None:
        # Which is no part of a transaction's identity, and so not compared above.
        assert [one.witness for one in found.decided.transactions] == [WITNESS]


def test_record_of_a_version_that_knew_neither_witnesses_nor_what_was_given_up_is_read() -> None:
    early = json.loads(encode(RECORDS[1]))
    del early["given_up"]
    early["decided"]["transactions"] = [row[:3] for row in early["decided"]["transactions"]]
    found = decode(json.dumps(early).encode())
    assert found == RECORDS[1]
    assert found.decided is not None
    assert found.decided.transactions[0].witness is None


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("given_up", {"run": "run"}), ("given_up", []), ("decided", {"query": "query"})],
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
