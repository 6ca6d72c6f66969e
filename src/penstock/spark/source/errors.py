"""Errors of the source, each with a message of one line."""

from penstock.model.error import PenstockError
from penstock.model.identity import TopicPartition


class BadPosition(PenstockError):
    """A start or an end that the topics do not have."""


class ForeignCheckpoint(PenstockError):
    """The checkpoint was written by another query or another source."""


class DataLoss(PenstockError):
    """Records were deleted before they were read. With failOnDataLoss=false this is a warning."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}; to continue with the records that are left, set failOnDataLoss=false, or"
            " start a stream with another checkpointLocation"
        )
        self.what = what


class SizesRefused(PenstockError):
    """A broker does not tell how large partitions are."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "option maxBytesPerTrigger needs the sizes of partitions, which a broker refuses"
            f" ({reason}): allow DESCRIBE on the cluster, or use maxOffsetsPerTrigger"
        )


class NoProgress(PenstockError):
    """A range could not be read for longer than a task waits."""

    def __init__(self, partition: TopicPartition, position: int, reason: str, wait_ms: int) -> None:
        super().__init__(
            f"{partition}: nothing could be read at offset {position} for {wait_ms} ms: {reason}"
        )
