"""What the flows of a sink ask of the world, and what they are told.

A flow yields an action and is sent the answer. Answers that were lost on the way are asked for
again by whoever carries actions out, except that of a Write, where only a look can tell.
"""

from dataclasses import dataclass
from enum import Enum

from penstock.spark.sink.decision import Prepared, SinkRecord


@dataclass(frozen=True, slots=True)
class Fence:
    """Takes the decider's id over; a Write of whoever held it will fail, also one on its way."""


@dataclass(frozen=True, slots=True)
class ReadLast:
    """-> SinkRecord | None: the sink's record, of all that was written before the question. It is
    read committed, and up to the high watermark: what is open below it is waited for.
    """


@dataclass(frozen=True, slots=True)
class Write:
    """-> WriteOutcome. In a transaction of the decider, by the identity of the last Fence. None
    takes the sink's record away.
    """

    record: SinkRecord | None


class WriteOutcome(Enum):
    WRITTEN = "written"
    FENCED = "fenced"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Commit:
    """-> bool: whether the transaction is committed, now or before; False: by this identity it
    could not be. Those `beside` it are asked for next, and may be committed along with it.
    """

    transaction: Prepared
    beside: tuple[Prepared, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """-> Seen: how the transaction of an id stands. Those `beside` it are asked for next, and may
    be looked at along with it.
    """

    transactional_id: str
    beside: tuple[str, ...] = ()


class Seen(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    IDLE = "idle"  # it has done nothing since it was taken over
    NONE = "none"  # an id that nobody knows


@dataclass(frozen=True, slots=True)
class FindEnding:
    """-> Ending: how a transaction ended, by the marker that stands in a partition. One that is
    about to be written is waited for.
    """

    transaction: Prepared


@dataclass(frozen=True, slots=True)
class Reclaim:
    """-> Reclaimed | None. Takes an id over and keeps its open transaction; None: there is none."""

    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimed:
    written_by: Prepared
    held_by: Prepared  # by this identity it can be ended now


@dataclass(frozen=True, slots=True)
class ListOpen:
    """-> tuple[str, ...]: the transactional ids with this beginning that have one open."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Takes an id over and aborts what it has open; nothing happens if there is nothing."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class Holder:
    """-> Prepared | None: by which identity the open transaction of an id can be ended."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class AbortOf:
    """Aborts what is open by this identity; nothing happens if somebody else holds the id."""

    held_by: Prepared


Action = (
    Fence
    | ReadLast
    | Write
    | Commit
    | Look
    | FindEnding
    | Reclaim
    | ListOpen
    | Abort
    | Holder
    | AbortOf
)
