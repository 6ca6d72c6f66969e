"""How wide the columns of a table are, so that it fits. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

READABLE = 8  # characters that are left of a text, or all of it where it is shorter


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnNeed:
    width: int  # of its longest cell or name
    may_shrink: bool  # a number that is cut would be another number

    @property
    def width_min(self) -> int:
        return min(self.width, READABLE) if self.may_shrink else self.width


def fitted(columns: Sequence[ColumnNeed], available: int) -> list[int] | None:
    """A width for each column, the sum at most `available`; None when that leaves nothing to read.

    The widest column gives way first, so that narrow ones stay whole; but the first column, which
    names the row, gives way last.
    """
    # What is wider than everything there is gives way at once, however long it is.
    widths = [max(min(column.width, available), column.width_min) for column in columns]
    excess = sum(widths) - available
    while excess > 0:
        shrinkable = [
            index for index, column in enumerate(columns) if widths[index] > column.width_min
        ]
        if not shrinkable:
            return None
        widest = max(shrinkable, key=lambda index: (index > 0, widths[index]))
        widths[widest] -= 1
        excess -= 1
    return widths
