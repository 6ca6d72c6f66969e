"""Two-phase commit for others (KIP-939), by raw requests: what is prepared waits for its decision.

A process prepares and dies, the node is killed, time-outs pass: whoever the outer coordinator sends
afterwards finds the transaction as it was left, and ends it, once.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.model.error import ErrorCode
from penstock.wire.messages.describe_transactions import DescribeTransactionsRequest
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from rig.dialogue import Dialogue
from rig.serve import ServedNode
from rig.transaction_dialogue import COMMITTED, LATEST, Producer, TransactionDialogue

TWO_PHASE = 6  # the version of InitProducerId
NO_TIMEOUT_MS = 2**31 - 1
NUMBERS = itertools.count(1)
ENABLE = "transaction.two.phase.commit.enable"
SETTINGS = {
    ENABLE: "true",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "false",
}


class Job:
    """One topic, and a transactional id of the same name; its processes come and go."""

    def __init__(self, node: ServedNode, name: str) -> None:
        self.node = node
        self.name = name
        with self.process() as talk:
            talk.dialogue.create_topic(partitions=2, retention_ms="-1")

    @contextmanager
    def process(self) -> Iterator[TransactionDialogue]:
        """One process with a connection of its own."""
        dialogue = Dialogue(self.node.bootstrap, self.name)
        yield TransactionDialogue(dialogue, creates=False)
        dialogue.close()

    def prepare(self) -> Producer:
        """A process writes in a transaction, leaves it open, and is gone."""
        with self.process() as task:
            producer, answer = begin(task)
            assert answer.error_code == ErrorCode.NONE
            task.produce(producer, version=12)
        return producer

    def kill_node(self) -> None:
        self.node.kill()
        self.node.start()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    one = ServedNode(data=tmp_path_factory.mktemp("two-phase") / "node", settings=SETTINGS)
    one.start()
    yield one
    assert one.stop() == 0


@pytest.fixture
def job(node: ServedNode) -> Job:
    return Job(node, f"orders-{next(NUMBERS)}")


def begin(talk: TransactionDialogue, suffix: str = "", **fields: Any) -> tuple[Producer, Any]:
    producer = Producer(transactional_id=talk.topic + suffix)
    talk.await_coordinator(producer)
    fields.setdefault("enable2_pc", True)
    return producer, talk.init(producer, version=TWO_PHASE, **fields)


def described(talk: TransactionDialogue, suffix: str = "") -> Any:
    request = DescribeTransactionsRequest(transactional_ids=[talk.topic + suffix])
    [state] = talk.dialogue.exchange(request, version=0).transaction_states
    return state


def stable_end(talk: TransactionDialogue) -> int:
    """The last stable offset: where readers of what is committed have to stop."""
    part = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    asked = ListOffsetsTopic(name=talk.topic, partitions=[part])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=COMMITTED, topics=[asked])
    return int(talk.dialogue.exchange(request, version=7).topics[0].partitions[0].offset)


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "aborted"])
def test_another_process_ends_what_was_prepared_before_a_kill(job: Job, commit: bool) -> None:
    """The end needs no more than the name, the producer id and the epoch."""
    prepared = job.prepare()
    job.kill_node()
    with job.process() as driver:
        driver.await_coordinator(prepared)
        before = described(driver)
        assert before.transaction_state == "Ongoing"
        assert before.transaction_timeout_ms == NO_TIMEOUT_MS
        assert stable_end(driver) == 0
        again = prepared.copy()
        assert driver.end(prepared, commit=commit, version=5).error_code == ErrorCode.NONE
        assert driver.end(again, commit=commit, version=5).error_code == ErrorCode.NONE
        assert described(driver).transaction_state == (
            "CompleteCommit" if commit else "CompleteAbort"
        )
        assert stable_end(driver) == 2


def test_what_is_kept_is_told_with_its_own_identity_and_ended_by_the_new_one(job: Job) -> None:
    prepared = job.prepare()
    job.kill_node()
    with job.process() as driver:
        successor, answer = begin(driver, keep_prepared_txn=True)
        assert answer.error_code == ErrorCode.NONE
        ongoing = (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        assert ongoing == (prepared.producer_id, prepared.epoch)
        assert (successor.producer_id, successor.epoch) != ongoing
    job.kill_node()
    with job.process() as driver:
        driver.await_coordinator(successor)
        fenced = driver.end(prepared, commit=True, version=5)
        assert fenced.error_code == ErrorCode.PRODUCER_FENCED
        assert driver.end(successor, commit=True, version=5).error_code == ErrorCode.NONE
        assert stable_end(driver) == 2
        answer = driver.produce(successor, version=12)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_nobody_writes_to_what_is_kept(job: Job) -> None:
    prepared = job.prepare()
    with job.process() as driver:
        successor, _ = begin(driver, keep_prepared_txn=True)
        for producer in (prepared, successor):
            for index in (0, 1):
                answer = driver.produce(producer.copy(), index, version=12, sequence=0)
                [told] = answer.responses[0].partition_responses
                assert told.error_code != ErrorCode.NONE, (producer, index)
        [topic] = described(driver).topics
        assert (topic.topic, topic.partitions) == (job.name, [0])
        assert driver.end(successor, commit=True, version=5).error_code == ErrorCode.NONE
        assert stable_end(driver) == 2


def test_who_does_not_keep_aborts(job: Job) -> None:
    job.prepare()
    with job.process() as driver:
        successor, answer = begin(driver)
        assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        driver.await_end(successor)
        answer = driver.init(successor, version=TWO_PHASE, enable2_pc=True)
        assert answer.error_code == ErrorCode.NONE
        assert answer.ongoing_txn_producer_id == -1
        assert described(driver).transaction_state == "Empty"


def test_there_may_be_nothing_to_keep(job: Job) -> None:
    with job.process() as driver:
        _, answer = begin(driver, keep_prepared_txn=True)
        assert answer.error_code == ErrorCode.NONE
        assert answer.ongoing_txn_producer_id == -1


def test_no_time_out_ends_what_is_prepared(job: Job) -> None:
    """A transaction of its age that has one shows that the time has come."""
    with job.process() as task:
        prepared, _ = begin(task, transaction_timeout_ms=1)
        assert (
            task.produce(prepared, version=12).responses[0].partition_responses[0].error_code == 0
        )
        hasty, _ = begin(task, "-hasty", enable2_pc=False, transaction_timeout_ms=1)
        task.produce(hasty, 1, version=12)
        while described(task, "-hasty").transaction_state != "CompleteAbort":
            pass
        assert described(task).transaction_state == "Ongoing"
    job.kill_node()
    with job.process() as driver:
        driver.await_coordinator(prepared)
        lazy, _ = begin(driver, "-lazy", enable2_pc=False, transaction_timeout_ms=1)
        driver.produce(lazy, 1, version=12)
        while described(driver, "-lazy").transaction_state != "CompleteAbort":
            pass
        assert described(driver).transaction_state == "Ongoing"
        assert driver.end(prepared, commit=True, version=5).error_code == ErrorCode.NONE


def test_where_the_setting_is_off_nobody_joins_a_two_phase_commit(tmp_path: Path) -> None:
    """As in Apache Kafka it is off unless it is turned on."""
    node = ServedNode(data=tmp_path / "node", settings={**SETTINGS, ENABLE: "false"})
    node.start()
    with Job(node, "orders").process() as task:
        producer, _ = begin(task, enable2_pc=False)
        with task.nothing_changes(producer):
            for fields in ({"enable2_pc": True}, {"keep_prepared_txn": True}):
                answer = task.init(producer.copy(), version=TWO_PHASE, **fields)
                assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert node.stop() == 0
