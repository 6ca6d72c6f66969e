"""The aborted transactions of one segment: those whose abort marker is in it.

    entry, 34 bytes, big-endian:
     0  version             int16    0
     2  producer id         int64
    10  first offset        int64    of the transaction
    18  last offset         int64    of its abort marker
    26  last stable offset  int64    as of that marker

Invariants:
 1. Last offsets increase strictly; last stable offsets never decrease.
 2. A transaction is in the index of the segment that holds its marker.

The file is created with the first entry; most segments have none.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from struct import Struct

from penstock.log.errors import CorruptIndex
from penstock.model.identity import ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset

VERSION = 0
_ENTRY = Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


def encode_aborted(transactions: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(
        _ENTRY.pack(
            VERSION, one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset
        )
        for one in transactions
    )


def decode_aborted(data: bytes, *, base_offset: Offset) -> list[AbortedTransaction]:
    """The entries of a file; a truncated one is left out. CorruptIndex when it is invalid."""
    whole = data[: len(data) - len(data) % ENTRY_BYTES]
    found: list[AbortedTransaction] = []
    for version, producer_id, first, last, last_stable in _ENTRY.iter_unpack(whole):
        if version != VERSION:
            raise CorruptIndex(f"unknown version {version} of an aborted transaction")
        if last < base_offset or (found and found[-1].last_offset >= last):
            raise CorruptIndex("last offsets of aborted transactions do not increase")
        found.append(
            AbortedTransaction(
                producer_id=ProducerId(producer_id),
                first_offset=Offset(first),
                last_offset=Offset(last),
                last_stable_offset=Offset(last_stable),
            )
        )
    return found


def collect_aborted(
    found: list[AbortedTransaction],
    transactions: Sequence[AbortedTransaction],
    *,
    from_offset: Offset,
    until_offset: Offset,
) -> bool:
    """Adds the transactions of one segment with records in [from_offset, until_offset); returns
    whether later segments cannot have any.
    """
    for one in transactions[bisect_left(transactions, from_offset, key=_last_offset) :]:
        if one.first_offset < until_offset:
            found.append(one)
        if one.last_stable_offset >= until_offset:
            return True  # whatever has ended later had begun there or beyond
    return False


def _last_offset(transaction: AbortedTransaction) -> Offset:
    return transaction.last_offset
