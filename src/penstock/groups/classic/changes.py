"""What changes in a classic group without being journalled: a failover forgets it."""

from dataclasses import dataclass
from typing import NamedTuple

from penstock.groups.classic.group import ClassicGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupBecame:
    """The live group, in place of the one before or of the one that a record has just stored."""

    group: ClassicGroup


class MemberIdGiven(NamedTuple):
    """A client has to come back with this id. The group is changed where it stands: to copy it for
    each client that never comes back would make a crowd of those costly to everybody.
    """

    group: str
    member: str


class MemberIdForgotten(NamedTuple):
    """Nobody came back with this id."""

    group: str
    member: str
