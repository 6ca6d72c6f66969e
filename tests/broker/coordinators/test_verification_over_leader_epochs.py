"""A transaction is verified in one leader epoch of a partition; the next one asks again.

A broker that was the leader before may hear of its new leader epoch only after another broker has
led: that one may have been told that another client has taken the transaction over (KIP-939).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.broker.coordinators import verification
from penstock.broker.coordinators.verification import Unverified, Verification
from penstock.model.error import ErrorCode
from penstock.model.offset import LeaderEpoch
from penstock.replication.guard import Guard
from penstock.replication.leader import Refusal
from penstock.replication.partition import Appended, Partition
from penstock.transactions.enlist import Enlisted
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


def answered(verified: Verification) -> Guard | Unverified | None:
    """The coordinator finds the transaction open."""
    names = [partition.name for partition in verified.asked]
    answer = Enlisted(errors=dict.fromkeys(names, ErrorCode.NONE), error=ErrorCode.NONE)
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
