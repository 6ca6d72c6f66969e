"""Places in a log, and the generations of those who write it."""

from typing import Final, NamedTuple, NewType

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)

NO_OFFSET: Final = Offset(-1)
NO_LEADER_EPOCH: Final = LeaderEpoch(-1)


class SnapshotId(NamedTuple):
    """A snapshot of the metadata log: all below `offset` is in it, and the last record there is of
    `epoch`. Its text is the name of its file.
    """

    offset: Offset
    epoch: LeaderEpoch

    def __str__(self) -> str:
        return f"{self.offset:020d}-{self.epoch:010d}"
