"""Records among the pieces of a message that a writer makes; called for each partition of a fetch.

Apart from `wire/writer_source`, which makes the writers, so that it can be compiled.
"""

from typing import Any


def records_size(records: Any) -> int:
    """How many bytes the records are on the wire: one buffer, one splice, or a list of them."""
    if isinstance(records, (bytes, bytearray)):
        return len(records)
    if isinstance(records, memoryview):
        return records.nbytes
    if isinstance(records, list):
        return sum([records_size(piece) for piece in records])
    size_bytes: int = records.byte_count
    return size_bytes


def add_records(records: Any, out: list[Any], splices: list[int]) -> None:
    """Appends the records to the pieces, and notes in `splices` which pieces they are."""
    if isinstance(records, list):
        for piece in records:
            add_records(piece, out, splices)
    elif isinstance(records, (bytes, bytearray, memoryview)) and not records:
        pass  # a reply has many partitions without records: no buffer for each of them
    else:
        splices.append(len(out))
        out.append(records)
