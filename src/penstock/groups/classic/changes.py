"""What changes in a classic group without being journalled: a failover forgets it."""

from dataclasses import dataclass

from penstock.groups.classic.group import ClassicGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupBecame:
    """The live group, in place of the one before or of the one that a record has just stored."""

    group: ClassicGroup
