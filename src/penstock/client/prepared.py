"""A transaction that waits for somebody's decision, as a value that can be handed on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTransaction:
    """All that is needed to commit or abort it, from any process."""

    transactional_id: str
    producer_id: int
    epoch: int
