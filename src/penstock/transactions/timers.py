"""The keys of a shard's deadlines: what happens when time is up, and to whom."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionEnds:
    """A transaction has been open for as long as its client asked for."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class IdsExpire:
    """The next look at transactional ids that nobody has used for long."""


TimerKey = TransactionEnds | IdsExpire
IDS_EXPIRE = IdsExpire()
