"""What keeps a query from reading what it was to read, each in one line."""

from penstock.model.error import PenstockError
from penstock.model.identity import TopicPartition


class BadPosition(PenstockError):
    """A place to start or to end that the topics do not have."""


class ForeignCheckpoint(PenstockError):
    """A checkpoint that another query, or another source, has written."""


class DataLoss(PenstockError):
    """Records that were to be read are gone. With failOnDataLoss=false this is a warning."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}; to continue with the records that are left, set failOnDataLoss=false, or"
            " start a stream with another checkpointLocation"
        )
        self.what = what


class NoProgress(PenstockError):
    """A range that should be readable was not, for longer than a task waits."""

    def __init__(self, partition: TopicPartition, position: int, reason: str, wait_ms: int) -> None:
        super().__init__(
            f"{partition}: nothing could be read at offset {position} for {wait_ms} ms: {reason}"
        )
