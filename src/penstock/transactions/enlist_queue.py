"""Questions to the coordinators of other nodes: those that gather go out in one request.

One request per node is outstanding. A reply names transactional ids, so that each is in a request
once: the questions of one producer that ask the same are put together, and any other one about the
same id waits for the next request. When the coordinator of an id has moved, its questions are taken
out, also those of the outstanding request, and the other node is asked: to ask twice does no harm.

A node that was asked and did not answer in time is silent until it answers again. Nothing waits
behind a request to a silent node: whoever asks meanwhile is refused, and asks again later.
"""

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import ENLISTMENTS_PER_REQUEST_MAX, ENLISTMENTS_WAITING_MAX
from penstock.model.offset import NO_LEADER_EPOCH
from penstock.transactions.enlist import Enlist, Enlisted
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

Asker = TypeVar("Asker")
NOTHING = Enlisted(errors={}, error=ErrorCode.NONE)


class Question(NamedTuple, Generic[Asker]):
    enlist: Enlist
    asker: Asker


@dataclass(slots=True, kw_only=True)
class EnlistQueue(Generic[Asker]):
    """Those to one node."""

    waiting: list[Question[Asker]]
    outstanding: tuple[Question[Asker], ...] = ()  # what still waits for the reply
    awaits_reply: bool = False
    is_silent: bool = False  # it did not answer the last request in time

    @property
    def is_full(self) -> bool:
        """Whether a further question is refused."""
        if self.is_silent and self.awaits_reply:
            return True
        return len(self.waiting) >= ENLISTMENTS_WAITING_MAX

    def add(self, enlist: Enlist, asker: Asker) -> bool:
        """False when it `is_full`."""
        if self.is_full:
            return False
        self.waiting.append(Question(enlist, asker))
        return True

    def take(self) -> AddPartitionsToTxnRequest | None:
        """The next request; None while one is outstanding or nothing waits."""
        if self.awaits_reply or not self.waiting:
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
        self.outstanding, self.waiting, self.awaits_reply = tuple(taken), left, True
        return AddPartitionsToTxnRequest(transactions=list(entries.values()))

    def answered(self, answers: Mapping[str, Enlisted]) -> list[tuple[Asker, Enlisted]]:
        """What the reply said of each transactional id that it named."""
        self.is_silent = False
        return [
            (asker, _answer(enlist, answers.get(enlist.transactional_id, NOTHING)))
            for enlist, asker in self.settled()
        ]

    def settled(self) -> tuple[Question[Asker], ...]:
        """The reply has come, or none will: the questions that it is about."""
        settled, self.outstanding, self.awaits_reply = self.outstanding, (), False
        return settled

    def timed_out(self) -> tuple[Question[Asker], ...]:
        """The node is silent: the questions of the request, and those that wait behind it."""
        waiting, self.waiting, self.is_silent = self.waiting, [], True
        return (*self.settled(), *waiting)

    def take_moved(self, is_here: Callable[[str], bool]) -> list[Question[Asker]]:
        """Removes the questions about ids that the node does not coordinate any more."""
        asked = (*self.outstanding, *self.waiting)
        moved = [one for one in asked if not is_here(one.enlist.transactional_id)]
        if moved:
            ids = {one.enlist.transactional_id for one in moved}
            self.outstanding = tuple(
                one for one in self.outstanding if one.enlist.transactional_id not in ids
            )
            self.waiting = [one for one in self.waiting if one.enlist.transactional_id not in ids]
        return moved


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
        topic.leader_epochs.append(
            enlist.leader_epochs.get(TopicPartition(name, index), NO_LEADER_EPOCH)
        )


def _answer(enlist: Enlist, reply: Enlisted) -> Enlisted:
    """What the reply leaves out is not verified."""
    errors = {
        name: reply.errors.get(name, ErrorCode.UNKNOWN_SERVER_ERROR) for name in enlist.partitions
    }
    return Enlisted(errors=errors, error=reply.error, coordinator_epoch=reply.coordinator_epoch)
