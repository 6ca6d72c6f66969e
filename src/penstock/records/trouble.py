"""What can be wrong with records that others wrote."""

from penstock.model.error import PenstockError


class CorruptBatch(PenstockError):
    """Bytes that are no record batch, or one that contradicts itself.

    `position` is where in the data they stand, if that is known.
    """

    def __init__(self, reason: str, *, position: int | None = None) -> None:
        super().__init__(reason if position is None else f"{reason} (at byte {position})")
        self.reason = reason
        self.position = position
