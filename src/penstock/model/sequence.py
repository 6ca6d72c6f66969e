"""Sequence numbers of idempotent producers: from 0 to 2^31 - 1, and then again from 0."""

from typing import Final

SEQUENCE_MAX: Final = 2**31 - 1
NO_SEQUENCE: Final = -1


def advance(sequence: int, *, by: int) -> int:
    """The sequence number `by` records after `sequence`."""
    assert 0 <= sequence <= SEQUENCE_MAX, sequence
    assert by >= 0, by
    return (sequence + by) & SEQUENCE_MAX


def back(sequence: int, *, by: int) -> int:
    """The sequence number `by` records before `sequence`."""
    assert 0 <= sequence <= SEQUENCE_MAX, sequence
    assert by >= 0, by
    return (sequence - by) & SEQUENCE_MAX


def is_later(sequence: int, *, than: int) -> bool:
    """Whether `sequence` comes after `than`, of two that are less than half of all apart."""
    assert 0 <= sequence <= SEQUENCE_MAX, sequence
    assert 0 <= than <= SEQUENCE_MAX, than
    return 0 < ((sequence - than) & SEQUENCE_MAX) <= SEQUENCE_MAX // 2
