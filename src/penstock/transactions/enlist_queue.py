"""Questions to the coordinators of other nodes: those that gather go out in one request.

One request per node is outstanding. A reply names transactional ids, so that each is in a request
once: the questions of one producer that ask the same are put together, and any other one about the
same id waits for the next request.
"""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import ENLISTMENTS_PER_REQUEST_MAX, ENLISTMENTS_WAITING_MAX
from penstock.transactions.enlist import Enlist, Enlisted
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

Asker = TypeVar("Asker")
Errors = Mapping[TopicPartition, ErrorCode]


class Question(NamedTuple, Generic[Asker]):
    enlist: Enlist
    asker: Asker


@dataclass(slots=True, kw_only=True)
class EnlistQueue(Generic[Asker]):
    """Those to one node."""

    waiting: list[Question[Asker]]
    outstanding: tuple[Question[Asker], ...] = ()

    def add(self, enlist: Enlist, asker: Asker) -> bool:
        """False when too many wait already."""
        if len(self.waiting) >= ENLISTMENTS_WAITING_MAX:
            return False
        self.waiting.append(Question(enlist, asker))
        return True

    def take(self) -> AddPartitionsToTxnRequest | None:
        """The next request; None while one is outstanding or nothing waits."""
        if self.outstanding or not self.waiting:
            return None
        taken: list[Question[Asker]] = []
        left: list[Question[Asker]] = []
        entries: dict[str, AddPartitionsToTxnTransaction] = {}
        for question in self.waiting:
            entry = entries.get(question.enlist.transactional_id)
            if len(taken) >= ENLISTMENTS_PER_REQUEST_MAX:
                left.append(question)
            elif entry is None:
                entries[question.enlist.transactional_id] = _entry(question.enlist)
                taken.append(question)
            elif _asks_the_same(entry, question.enlist):
                _add_partitions(entry, question.enlist)
                taken.append(question)
            else:
                left.append(question)
        self.outstanding, self.waiting = tuple(taken), left
        return AddPartitionsToTxnRequest(transactions=list(entries.values()))

    def answered(self, errors: Mapping[str, Errors]) -> list[tuple[Asker, Enlisted]]:
        """The errors of each transactional id that the reply named."""
        return [
            (asker, _answer(enlist, errors.get(enlist.transactional_id, {})))
            for enlist, asker in self.settled()
        ]

    def settled(self) -> tuple[Question[Asker], ...]:
        """The outstanding questions, which are so no more."""
        settled, self.outstanding = self.outstanding, ()
        return settled


def _entry(enlist: Enlist) -> AddPartitionsToTxnTransaction:
    entry = AddPartitionsToTxnTransaction(
        transactional_id=enlist.transactional_id,
        producer_id=enlist.producer.producer_id,
        producer_epoch=enlist.producer.epoch,
        verify_only=enlist.verify_only,
    )
    _add_partitions(entry, enlist)
    return entry


def _asks_the_same(entry: AddPartitionsToTxnTransaction, enlist: Enlist) -> bool:
    return (entry.producer_id, entry.producer_epoch, entry.verify_only) == (
        enlist.producer.producer_id,
        enlist.producer.epoch,
        enlist.verify_only,
    )


def _add_partitions(entry: AddPartitionsToTxnTransaction, enlist: Enlist) -> None:
    """The receiver takes each partition once, however often it is named."""
    topics = {topic.name: topic for topic in entry.topics}
    for name, index in enlist.partitions:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = AddPartitionsToTxnTopic(name=name)
            entry.topics.append(topic)
        topic.partitions.append(index)


def _answer(enlist: Enlist, errors: Errors) -> Enlisted:
    """What the reply leaves out is not verified."""
    own = {name: errors.get(name, ErrorCode.UNKNOWN_SERVER_ERROR) for name in enlist.partitions}
    return Enlisted(errors=own, error=ErrorCode.NONE)
