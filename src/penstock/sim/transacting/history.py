"""What applications asked of their transactions and were told: the ground of judgement.

    an attempt   one transaction, as the instance that began it knows it
    a fence      an InitProducerId that was answered: from there on no older epoch writes
    a decision   what the database of a two-phase application says about an attempt

An attempt whose commit was never asked for comes to nothing. One whose commit was asked for may be
committed from that moment on, until it is refused for certain; and once a reader has seen a record
of it, or an offset, or its application was told, it is committed for good.

A power loss where acks do not last takes what it takes; nothing is promised from then on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.model.identity import TopicPartition
from penstock.sim.errors import Violation
from penstock.transactions.state import Identity


@dataclass(slots=True, kw_only=True)
class Attempt:
    name: str
    transactional_id: str
    identity: Identity
    records: list[str] = field(default_factory=list)  # all that were sent, by name
    inputs: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)  # from, until
    may_commit: bool = False  # somebody has asked for it, and was not refused for certain
    commits_unclear: int = 0  # how many of those were not answered
    committed: bool | None = None  # None while nobody knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    identity: Identity
    ends: Mapping[TopicPartition, int]  # of all logs, when it was answered


class TransactionHistory:
    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}
        self.fences: list[Fence] = []
        self.decisions: dict[tuple[str, Identity], bool] = {}  # of databases: whether to commit
        self.nothing_promised = False
        self._by_record: dict[str, Attempt] = {}
        self._latest: dict[str, Identity] = {}  # that was given to anybody, by transactional id

    @property
    def commits(self) -> int:
        return sum(attempt.committed is True for attempt in self.attempts.values())

    def begin(self, attempt: Attempt) -> None:
        assert attempt.name not in self.attempts, attempt.name
        self.attempts[attempt.name] = attempt

    def send(self, attempt: Attempt, record: str) -> None:
        attempt.records.append(record)
        self._by_record[record] = attempt

    def attempt_of(self, transactional_id: str, identity: Identity) -> Attempt | None:
        """The last that had this identity."""
        for attempt in reversed(self.attempts.values()):
            if (attempt.transactional_id, attempt.identity) == (transactional_id, identity):
                return attempt
        return None

    # Outcomes

    def ask_commit(self, attempt: Attempt) -> None:
        attempt.may_commit = True
        attempt.commits_unclear += 1

    def refused_commit(self, attempt: Attempt) -> None:
        """One of those that were asked for has done nothing."""
        attempt.commits_unclear -= 1
        attempt.may_commit = attempt.commits_unclear > 0

    def ended(self, attempt: Attempt, *, committed: bool, seen_by: str) -> None:
        """Somebody knows for certain."""
        if self.nothing_promised:
            return
        if attempt.committed not in (None, committed):
            raise Violation(
                "atomicity",
                f"{attempt.name} was {_word(not committed)}, and is {_word(committed)}: {seen_by}",
            )
        attempt.committed = committed

    def decide(self, attempt: Attempt, *, commit: bool) -> bool:
        """The database decides once, whoever asks; what it has decided."""
        key = attempt.transactional_id, attempt.identity
        return self.decisions.setdefault(key, commit)

    def see(self, record: str, place: TopicPartition, offset: int) -> None:
        """Somebody who reads what is committed was handed this record."""
        attempt = self._by_record.get(record)
        if attempt is None or self.nothing_promised:
            return
        if not attempt.may_commit and attempt.committed is not True:
            raise Violation(
                "aborted read",
                f"{place}: {record} at offset {offset} is read, and nobody has asked for the commit"
                f" of {attempt.name}",
            )
        self.ended(attempt, committed=True, seen_by=f"{place} shows offset {offset}")

    def committed_offset(self, transactional_id: str, place: TopicPartition) -> int:
        """The largest that is known to be committed there for an application, as of now."""
        return max(
            (
                attempt.inputs[place][1]
                for attempt in self.attempts.values()
                if attempt.transactional_id == transactional_id
                and place in attempt.inputs
                and attempt.committed is True
            ),
            default=0,
        )

    def see_offset(
        self, transactional_id: str, place: TopicPartition, offset: int, *, least: int
    ) -> None:
        """The offset that is committed there for an application, as somebody was told who has asked
        when `least` was committed: a reply may have been on its way for long.
        """
        if self.nothing_promised:
            return
        told = None
        for attempt in self.attempts.values():
            if attempt.transactional_id != transactional_id or place not in attempt.inputs:
                continue
            until = attempt.inputs[place][1]
            if until == offset and (attempt.may_commit or attempt.committed is True):
                told = attempt
        if offset < least:
            raise Violation(
                "transaction offsets",
                f"{transactional_id} has {offset} for {place}, where {least} was committed",
            )
        if offset > 0 and told is None:
            raise Violation(
                "transaction offsets",
                f"{transactional_id} has {offset} for {place}, which no transaction that may be"
                " committed has set",
            )

    # Fencing

    def given(self, transactional_id: str, identity: Identity) -> None:
        """By InitProducerId: nobody ends anything with an older one any more."""
        latest = self._latest.get(transactional_id, identity)
        self._latest[transactional_id] = max(identity, latest)

    def fence(self, identity: Identity, ends: Mapping[TopicPartition, int]) -> None:
        """Nothing of an older epoch is written beyond these ends."""
        self.fences.append(Fence(identity=identity, ends=ends))

    def is_fenced(self, transactional_id: str, identity: Identity) -> bool:
        """Whether somebody else has been given a later identity by InitProducerId."""
        return identity < self._latest.get(transactional_id, identity)


def _word(committed: bool) -> str:
    return "committed" if committed else "aborted"
