"""Errors of a log: offsets out of range, and corrupt files."""

from penstock.model.error import PenstockError
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset


class OffsetOutOfRange(PenstockError):
    """A reader asked for an offset that the log does not have, any more or yet."""

    def __init__(self, offset: Offset, *, start_offset: Offset, end_offset: Offset) -> None:
        super().__init__(f"offset {offset} is not in [{start_offset}, {end_offset}]")
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class CorruptRun(PenstockError):
    """What a leader sent cannot be appended at `offset`; the log has not changed."""

    def __init__(self, partition: TopicPartition, offset: Offset, reason: str) -> None:
        super().__init__(f"{partition}: the leader's batches for offset {offset}: {reason}")
        self.partition = partition
        self.offset = offset
        self.reason = reason


class CorruptData(PenstockError):
    """A file is corrupt: an error of one partition, never of the node.

    The log rebuilds what follows from other files; callers get this error for the rest.
    """


class CorruptIndex(CorruptData):
    """An invalid index file. It is rebuilt from the log."""


class CorruptSnapshot(CorruptData):
    """An invalid producer snapshot. The one before it is used."""


class CorruptCheckpoint(CorruptData):
    """An invalid checkpoint or properties file."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class CorruptLog(CorruptData):
    """Bytes inside a segment are not a batch: the disk has lost or changed them."""

    def __init__(self, path: str, *, position: int, reason: str) -> None:
        super().__init__(f"{path} at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class RecordsLost(CorruptData):
    """A log ends below the offset up to which it was synced: the disk has lost records."""

    def __init__(self, directory: str, *, end_offset: Offset, synced_offset: Offset) -> None:
        super().__init__(
            f"{directory} ends at offset {end_offset}, but was synced up to {synced_offset}"
        )


class TopicIdMismatch(PenstockError):
    """A partition's directory belongs to another topic of the same name."""

    def __init__(self, directory: str, *, expected: str, found: str) -> None:
        super().__init__(f"{directory} holds topic id {found} where {expected} was expected")
        self.directory = directory
        self.expected = expected
        self.found = found
