"""Changes of a classic group that are not journalled, and are lost on failover."""

from typing import NamedTuple

from penstock.groups.classic.group import ClassicGroup
from penstock.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupBecame:
    """Replaces the group in memory, also one that a record has just stored."""

    group: ClassicGroup


class MemberIdGiven(NamedTuple):
    """A client was given this id and has to join with it. The group is changed in place: a copy for
    each client that never comes back would be costly when there are many of them.
    """

    group: str
    member: str


class MemberIdForgotten(NamedTuple):
    """No client has joined with this id in time."""

    group: str
    member: str
