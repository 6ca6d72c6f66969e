"""What a reader sees of transactions."""

from enum import IntEnum


class Isolation(IntEnum):
    """Whether records of open and aborted transactions are seen."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
