"""What a coordinator is asked, and what it may look at besides its own state."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerId
from penstock.model.settings.transactions import TransactionSettings

Request = TypeVar("Request", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[Request]):
    """One request. Its version tells how the client counts epochs, and which errors it knows."""

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
    """In place of a reply: nothing was decided for want of a producer id. Get some, ask again."""


NEEDS_PRODUCER_ID = NeedsProducerId()


def fenced(version: int, *, from_version: int) -> ErrorCode:
    """How a client learns that another one took its place; old ones know no word for it."""
    return (
        ErrorCode.PRODUCER_FENCED if version >= from_version else ErrorCode.INVALID_PRODUCER_EPOCH
    )
