"""The keys of a shard's deadlines: what the deadline is for, and whose it is."""

from penstock.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TransactionEnds:
    """A transaction has been open for as long as its client asked for."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class IdsExpire:
    """The next round of expiry of transactional ids."""


TimerKey = TransactionEnds | IdsExpire
IDS_EXPIRE = IdsExpire()
