"""What a state machine decides: the records to journal, the reply, and the effects.

`decide` reads the state and changes nothing; it returns a Decision. The host then appends the
records, applies them, and releases reply and effects once the records are committed.
"""

from typing import Generic, TypeVar

from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import DECISION_RECORDS_MAX, FRAMED_RECORDS_MAX

Record = TypeVar("Record", covariant=True)
Reply = TypeVar("Reply", covariant=True)
Refusal = TypeVar("Refusal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[Record, Reply]):
    """One decision: one batch in the journal, or none when it changes nothing. One that is `framed`
    may have more records: its journal writes them in several batches, which readers see as one.

    `effects` are carried out with the reply: messages to others, never changes of this state.
    `volatile` is applied with the records but not journalled: a failover forgets it.
    """

    reply: Reply
    records: tuple[Record, ...] = ()
    effects: tuple[object, ...] = ()
    volatile: tuple[object, ...] = ()
    framed: bool = False

    def __post_init__(self) -> None:
        records_max = FRAMED_RECORDS_MAX if self.framed else DECISION_RECORDS_MAX
        assert len(self.records) <= records_max, len(self.records)

    @staticmethod
    def refuse(reply: Refusal) -> "Decision[Record, Refusal]":
        """A decision that changes nothing. It is still held like a read: what it saw may not be
        committed yet.
        """
        return Decision(reply=reply)
