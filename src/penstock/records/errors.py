"""What can be wrong with records that others wrote."""

from penstock.model.error import ErrorCode, PenstockError


class CorruptBatch(PenstockError):
    """Bytes that are no record batch, or one that contradicts itself.

    `position` is where in the data they stand, if that is known.
    """

    def __init__(self, reason: str, *, position: int | None = None) -> None:
        super().__init__(reason if position is None else f"{reason} (at byte {position})")
        self.reason = reason
        self.position = position


class IncompleteBatch(CorruptBatch):
    """Bytes that begin as a batch does, and end before it."""


class OversizedBatch(CorruptBatch):
    """Compressed records that expand beyond the bound; what lies beyond it was never held."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"the records expand to more than {bytes_max} bytes")
        self.bytes_max = bytes_max


class InvalidBatch(PenstockError):
    """A produced batch that the leader refuses, with what its producer is told.

    `record_errors` are (index in the batch, sentence), for trouble with single records.
    """

    def __init__(
        self, code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...] = ()
    ) -> None:
        assert code != ErrorCode.NONE
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
        self.record_errors = record_errors


class NotOneBatch(InvalidBatch):
    """What should be one batch of the present format is none, or several: no log is even asked."""
