"""A transaction is verified in one leader epoch of a partition; the next one asks again.

Answers count if coordinator and leader know of each other: the coordinator knows the leader epoch
of the partition, and the partition has no marker of a later coordinator.

A broker that was the leader before may hear of its new leader epoch only after another broker has
led: that one may have been told that another client has taken the transaction over (KIP-939).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.broker.api import add_partitions_to_txn
from penstock.broker.coordinators import verification
from penstock.broker.coordinators.verification import Unverified, Verification
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.offset import LeaderEpoch
from penstock.replication.guard import Guard
from penstock.replication.leader import Refusal
from penstock.replication.marker import Marker
from penstock.replication.partition import Appended, Partition
from penstock.transactions.enlist import Enlisted
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from rig.data_requests import produce_request
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker

TOPIC = "orders"
PRODUCER = 7
VERSION = 11


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    broker.create_topic(TOPIC, replicas=(NODE,))
    yield broker
    broker.close()


def batch(sequence: int) -> memoryview:
    return produced(1, producer_id=PRODUCER, epoch=0, sequence=sequence, transactional=True)


def begin(broker: Broker, *, sequence: int = 0) -> Verification:
    request = produce_request(TOPIC, batch(sequence))
    return verification.begin(broker.partitions, request, version=VERSION)


def answered(verified: Verification, *, coordinator_epoch: int = 0) -> Guard | Unverified | None:
    """The coordinator finds the transaction open."""
    errors = {partition.name: ErrorCode.NONE for partition in verified.asked}
    answer = Enlisted(errors=errors, error=ErrorCode.NONE, coordinator_epoch=coordinator_epoch)
    verification.note(verified, answer, version=VERSION)
    verified.release()
    [(partition, _)] = verified.led
    return verified.outcome(partition.name)


def append(partition: Partition, *, sequence: int, guard: Guard) -> Appended | Refusal:
    return partition.append(batch(sequence), all_acks=True, now_ms=NOW_MS, guard=guard)


def verify_and_append(broker: Broker) -> None:
    verified = begin(broker)
    [asked] = verified.asked
    guard = verified.guards[asked.name]
    assert isinstance(append(asked, sequence=0, guard=guard), Appended)
    verified.release()


def lead_again(broker: Broker, *, other_in_between: bool) -> None:
    topic = broker.services.image.topics_by_name[TOPIC]
    [before] = topic.partitions
    epochs = [(OTHER, 1), (NODE, 2)] if other_in_between else [(NODE, 2)]
    for leader, later in epochs:
        after = replace(
            before,
            replicas=(NODE, OTHER),
            isr=(NODE,) if leader == NODE else (NODE, OTHER),
            leader=leader,
            leader_epoch=LeaderEpoch(before.leader_epoch + later),
            partition_epoch=before.partition_epoch + later,
        )
        broker.change_topic(replace(topic, partitions=(after,)))


def test_an_open_transaction_is_not_verified_again_in_the_same_epoch(broker: Broker) -> None:
    verify_and_append(broker)
    assert begin(broker, sequence=1).asked == []


@pytest.mark.parametrize("other_in_between", [True, False])
def test_an_open_transaction_is_verified_again_in_the_next_epoch(
    broker: Broker, other_in_between: bool
) -> None:
    verify_and_append(broker)
    lead_again(broker, other_in_between=other_in_between)
    partition = broker.partition(TOPIC)
    refused = append(partition, sequence=1, guard=verification.IS_OPEN)
    assert isinstance(refused, Refusal)
    assert refused.code is ErrorCode.INVALID_TXN_STATE
    verified = begin(broker, sequence=1)
    assert verified.asked == [partition]
    guard = answered(verified)
    assert isinstance(guard, Guard)


@pytest.mark.parametrize("other_in_between", [True, False])
def test_the_client_sends_again_what_was_verified_in_the_epoch_before(
    broker: Broker, other_in_between: bool
) -> None:
    """INVALID_TXN_STATE would end its producer."""
    verified = begin(broker)
    lead_again(broker, other_in_between=other_in_between)
    outcome = answered(verified)
    assert isinstance(outcome, Unverified)
    assert outcome.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_client_sends_again_what_was_known_to_be_open_in_the_epoch_before(
    broker: Broker,
) -> None:
    """Another partition of the request had to be verified meanwhile."""
    verify_and_append(broker)
    verified = begin(broker, sequence=1)
    lead_again(broker, other_in_between=False)
    outcome = answered(verified)
    assert isinstance(outcome, Unverified)
    assert outcome.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def end_transaction(broker: Broker, *, coordinator_epoch: int) -> None:
    marker = Marker(
        producer_id=ProducerId(PRODUCER),
        producer_epoch=ProducerEpoch(0),
        coordinator_epoch=coordinator_epoch,
        committed=True,
    )
    assert broker.partition(TOPIC).end_transaction(marker, now_ms=NOW_MS) == 2


def test_a_coordinator_that_was_replaced_verifies_nothing(broker: Broker) -> None:
    """It has not heard of its successor, which has ended the transaction: a batch that comes late
    would begin another one, that nobody ends.
    """
    verify_and_append(broker)
    end_transaction(broker, coordinator_epoch=6)
    outcome = answered(begin(broker, sequence=1), coordinator_epoch=5)
    assert isinstance(outcome, Unverified)
    assert outcome.code is ErrorCode.NOT_ENOUGH_REPLICAS, "the client tries again"
    assert isinstance(answered(begin(broker, sequence=1), coordinator_epoch=6), Guard)


@pytest.mark.parametrize(
    ("leader_epoch", "code"),
    [
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NOT_COORDINATOR),  # there is no shard: it would be asked
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (None, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_coordinator_verifies_for_the_leaders_that_its_metadata_names(
    broker: Broker, leader_epoch: int | None, code: ErrorCode
) -> None:
    """It could not tell any other that the transaction was taken over (KIP-939)."""
    broker.create_topic("bills", leader=OTHER, replicas=(OTHER,), leader_epoch=5)
    topic = AddPartitionsToTxnTopic(name="bills", partitions=[0])
    topic.leader_epochs = [] if leader_epoch is None else [leader_epoch]
    transaction = AddPartitionsToTxnTransaction(
        transactional_id="billing", producer_id=PRODUCER, verify_only=True, topics=[topic]
    )
    reply = broker.ask(
        add_partitions_to_txn.API,
        AddPartitionsToTxnRequest(transactions=[transaction]),
        AddPartitionsToTxnResponse,
        version=5,
    )
    [result] = reply.results_by_transaction[0].topic_results[0].results_by_partition
    assert result.partition_error_code == code
