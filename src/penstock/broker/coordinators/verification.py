"""Before a transaction's first append to a partition, its coordinator is asked (KIP-890).

Clients of generation 1 have added the partition themselves: it is verified. For those of generation
2 it is added on the way. Guards are taken before the question (`replication/guard`), so that a
marker which comes before the append is not overlooked. An answer counts in the leader epoch in
which it was asked for: in another one the client sends its batch again, and it is verified again.
Where verification is turned off, it is so
for records alone: offsets of a group are verified all the same.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final

from penstock.broker.coordinators.transaction_coordinator import TransactionCoordinator
from penstock.broker.partitions.partitions import Partitions
from penstock.model.error import ErrorCode, RequestError
from penstock.model.events import PRODUCER_FENCED
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch
from penstock.records.batch import BatchHeader
from penstock.records.errors import CorruptBatch
from penstock.records.layout import NO_PRODUCER_ID
from penstock.replication.guard import Guard
from penstock.replication.partition import Partition
from penstock.transactions.enlist import Enlist, Enlisted
from penstock.transactions.finish import GENERATION_2
from penstock.transactions.state import Identity
from penstock.wire.messages.produce import ProduceRequest
from penstock.world.event_log import tell

logger = logging.getLogger(__name__)

TOPIC_IDS_FROM: Final = 13  # of Produce
ABORTABLE_FROM: Final = 11  # the error that lets a client go on after an abort
ADDS_FROM: Final = 12
# The metadata of the coordinator, or of the leader that asks, is behind.
BEHIND: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)
# Clients do not try again after these; after the one that is sent instead they do. Those of
# generation 2 know the one of them that stands for markers on their way.
FENCING: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
REPLACED_CODES: Final = BEHIND | frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    }
)
TOO_LATE: Final = "the coordinator has not answered in time"
ANOTHER_EPOCH: Final = "The leader epoch changed while the transaction was verified"
IS_OPEN: Final = Guard()  # where the partition knows the transaction already


@dataclass(frozen=True, slots=True, kw_only=True)
class Unverified:
    """Why nothing of the transaction may be written to a partition."""

    code: ErrorCode
    message: str | None


@dataclass(slots=True, kw_only=True)
class Verification:
    """Of the partitions of one request; `release` it when these are written."""

    producer: Identity | None = None  # None: nothing of the request is transactional
    guards: dict[TopicPartition, Guard] = field(default_factory=dict)
    asked: list[Partition] = field(default_factory=list)
    led: list[tuple[Partition, LeaderEpoch]] = field(default_factory=list)  # all, as of `add`
    refused: dict[TopicPartition, Unverified] = field(default_factory=dict)
    transactional_id: str = ""  # for the log

    def outcome(self, name: TopicPartition) -> Guard | Unverified | None:
        return self.refused.get(name) or self.guards.get(name)

    def add(self, partition: Partition, producer: Identity, *, sequence: int, adds: bool) -> None:
        """The producer is about to write to the partition. `adds`: it is of generation 2."""
        self.producer = producer
        if partition.name in self.guards:
            return
        self.led.append((partition, partition.leader_epoch))
        if partition.may_continue(producer.producer_id, epoch=producer.epoch):
            self.guards[partition.name] = IS_OPEN
            return
        self.guards[partition.name] = partition.guards.take(
            producer.producer_id,
            sequence=sequence,
            ended_by_epoch=producer.epoch + 1 if adds else producer.epoch,
        )
        self.asked.append(partition)

    def ended(self) -> Iterator[TopicPartition]:
        """The partitions that are not led here any more, or in another epoch."""
        for partition, leader_epoch in self.led:
            if partition.has_ended or partition.leader_epoch != leader_epoch:
                yield partition.name

    def release(self) -> None:
        for partition in self.asked:
            assert self.producer is not None
            partition.guards.release(self.producer.producer_id, self.guards[partition.name])


def is_open(partition: Partition, records: memoryview) -> bool:
    """Whether a batch continues a transaction that the partition knows, and is the next one:
    nobody need be asked.
    """
    try:
        batch = BatchHeader(records)
    except CorruptBatch:
        return False
    return batch.is_transactional and partition.may_continue(
        batch.producer_id, epoch=batch.producer_epoch
    )


def begin(partitions: Partitions, request: ProduceRequest, *, version: int) -> Verification:
    """Takes the guards. RequestError when the batches are of several producers."""
    verification = Verification()
    for partition, batch in _transactional(partitions, request, by_id=version >= TOPIC_IDS_FROM):
        producer = Identity(batch.producer_id, batch.producer_epoch)
        if verification.producer not in (None, producer):
            verification.release()
            raise RequestError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "one transaction has one producer"
            )
        adds = version >= ADDS_FROM
        sequence = 0 if adds else batch.base_sequence
        verification.add(partition, producer, sequence=sequence, adds=adds)
    return verification


def ask(
    transactions: TransactionCoordinator,
    verification: Verification,
    *,
    transactional_id: str,
    verify_only: bool,
) -> Enlisted | RequestError | asyncio.Future[Any]:
    """Asks the coordinator, on this node or another: `note` what it says, or the `outcome_of` the
    future.
    """
    assert verification.producer is not None
    verification.transactional_id = transactional_id
    request = Enlist(
        transactional_id=transactional_id,
        producer=verification.producer,
        partitions=tuple(partition.name for partition in verification.asked),
        verify_only=verify_only,
        client_version=GENERATION_2,
        leader_epochs={partition.name: partition.leader_epoch for partition in verification.asked},
    )
    try:
        return transactions.enlist(request)
    except RequestError as refusal:
        return refusal


async def outcome_of(
    waiting: asyncio.Future[Any], *, wait_ms: int | None = None
) -> Enlisted | RequestError:
    """What the coordinator says in the end, or that it has not within `wait_ms`. What is decided
    later counts all the same: whoever asked asks again.
    """
    try:
        answer: Enlisted = await asyncio.wait_for(
            waiting, None if wait_ms is None else max(wait_ms, 0) / 1000
        )
    except RequestError as refusal:
        return refusal
    except TimeoutError:
        return RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, TOO_LATE)
    return answer


def note(verification: Verification, answer: Enlisted | RequestError, *, version: int) -> None:
    """What the coordinator said of each partition that it was asked about."""
    for partition in verification.asked:
        name = partition.name
        code = code_of(verification, partition, answer)
        if code is not ErrorCode.NONE:
            verification.refused[name] = refusal_for_producer(code, version=version)
            if code in FENCING and verification.producer is not None:
                tell(
                    logger,
                    PRODUCER_FENCED,
                    transactional_id=verification.transactional_id,
                    producer_id=verification.producer.producer_id,
                    epoch=verification.producer.epoch,
                    api="Produce",
                    error=code.name,
                    partition=str(name),
                )
    for name in verification.ended():
        verification.refused[name] = Unverified(
            code=ErrorCode.NOT_LEADER_OR_FOLLOWER, message=ANOTHER_EPOCH
        )


def code_of(
    verification: Verification, partition: Partition, answer: Enlisted | RequestError
) -> ErrorCode:
    """What the coordinator said of one partition. An answer of an earlier coordinator than the one
    that ended a transaction of this producer here does not count: it does not know of the end.
    """
    if isinstance(answer, RequestError):
        return answer.code
    assert verification.producer is not None
    known = partition.log.producers.by_id.get(verification.producer.producer_id)
    epoch = answer.coordinator_epoch
    if known is not None and epoch is not None and epoch < known.coordinator_epoch:
        return ErrorCode.NOT_COORDINATOR
    return answer.errors[partition.name]


def refusal_for_producer(code: ErrorCode, *, version: int) -> Unverified:
    """The coordinator's answer in the words that a producer of this version knows."""
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version >= ADDS_FROM:
        return Unverified(code=code, message=None)
    if code in REPLACED_CODES:
        return Unverified(
            code=ErrorCode.NOT_ENOUGH_REPLICAS,
            message=(
                "Unable to verify the partition has been added to the transaction. "
                f"Underlying error: {code.name}"
            ),
        )
    code = in_words_of_writers(code, abortable=version >= ABORTABLE_FROM)
    message = "Partition was not added to the transaction"
    return Unverified(code=code, message=message if code is ErrorCode.INVALID_TXN_STATE else None)


def in_words_of_writers(code: ErrorCode, *, abortable: bool) -> ErrorCode:
    """`abortable`: the client knows the error that lets it go on after an abort."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _transactional(
    partitions: Partitions, request: ProduceRequest, *, by_id: bool
) -> Iterator[tuple[Partition, BatchHeader]]:
    """The batches that are part of a transaction, where they go to a partition of ours."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if by_id:
                found = partitions.find_by_id(topic.topic_id, data.index)
            else:
                found = partitions.find(topic.name, data.index)
            if not isinstance(found, Partition) or found.is_internal or data.records is None:
                continue
            try:
                batch = BatchHeader(memoryview(data.records))
            except CorruptBatch:
                continue  # whoever appends it says what is wrong
            if batch.is_transactional and batch.producer_id > NO_PRODUCER_ID:
                yield found, batch
