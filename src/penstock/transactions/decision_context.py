"""Requests to the transaction coordinator, and what a decision may read besides its own state."""

from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.transactions import TransactionSettings

Request = TypeVar("Request", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[Request]):
    """One request. Its version decides how the client counts epochs, and which error codes it
    knows.
    """

    request: Request
    version: int = 0  # of what clients and other brokers send


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """The settings and the two clocks, as of one decision."""

    settings: TransactionSettings
    now_ms: int  # of the wall clock: for what is stored or shown
    monotonic_ms: int  # for deadlines
    fresh_producer_id: Callable[[], ProducerId | None]  # another one at each call; None: none left


@dataclass(frozen=True, slots=True)
class NeedsProducerId:
    """In place of a reply: the decision needs a producer id. Fetch some, then submit it again."""


NEEDS_PRODUCER_ID = NeedsProducerId()


def fenced(version: int, *, from_version: int) -> ErrorCode:
    """The error code for a fenced client; older versions do not know PRODUCER_FENCED."""
    return (
        ErrorCode.PRODUCER_FENCED if version >= from_version else ErrorCode.INVALID_PRODUCER_EPOCH
    )
