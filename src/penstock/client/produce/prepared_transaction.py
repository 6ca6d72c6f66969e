"""A transaction that waits for somebody's decision, as a value that can be handed on."""

from enum import Enum

from penstock.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTransaction:
    """All that is needed to commit or abort it, from any process."""

    transactional_id: str
    producer_id: int
    epoch: int


class Ending(Enum):
    """How a transaction ended, by what stands in a partition that it wrote to (`markers`)."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"  # there is no marker yet
    UNKNOWN = "unknown"  # its records are gone, and with them what could be told
