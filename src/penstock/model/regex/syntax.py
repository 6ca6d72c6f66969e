"""The tree of a regular expression, and the error for invalid ones.

Only whole names are matched, and only whether they match. So there are no captures here and no
greediness.
"""

import string
from collections.abc import Callable
from enum import Enum, auto

from penstock.model.error import PenstockError
from penstock.model.lazy_dataclass import dataclass

Members = Callable[[str], bool]  # whether a character belongs to a set
WORD_CHARACTERS = frozenset(string.ascii_letters + string.digits + "_")


class InvalidRegex(PenstockError):
    """The text is not an expression of RE2, or one that costs too much."""


class Place(Enum):
    """What an assertion requires of its position."""

    START = auto()
    END = auto()
    WORD_BOUNDARY = auto()
    NOT_WORD_BOUNDARY = auto()


@dataclass(frozen=True, slots=True)
class Characters:
    """One character out of a set."""

    members: Members
    sets: int = 1  # that `members` may have to look into


@dataclass(frozen=True, slots=True)
class Assertion:
    """Matches no character, at a certain position."""

    place: Place


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other; nothing when there are none."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """One or the other."""

    options: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """The part, so many times over; without end when `most` is None."""

    part: "Node"
    least: int
    most: int | None


Node = Characters | Assertion | Sequence | Choice | Repeat
