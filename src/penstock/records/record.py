"""One record, as those see it who look at single records: clients, state machines, compaction."""

from typing import NamedTuple

from penstock.model.offset import NO_OFFSET, Offset
from penstock.records.layout import NO_TIMESTAMP

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A tuple because it is made per record: half the price of a slots class."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = NO_TIMESTAMP
    offset: Offset = NO_OFFSET
