"""What an alert is: a rule over one figure, as data.

A figure is a number about a subject: a group and a topic, a directory, a listener. A rule that is
about the node or the cluster as a whole has one subject, which is the empty text.
"""

from enum import Enum

from penstock.model.lazy_dataclass import dataclass

WHOLE = ""  # the subject of a rule that has only one


class Severity(Enum):
    WARNING = "warning"
    CRITICAL = "critical"


class Scope(Enum):
    """Who evaluates a rule."""

    NODE = "node"  # each node, of what it knows itself
    CLUSTER = "cluster"  # the active controller alone, so that it is told once


class Side(Enum):
    """On which side of its threshold a figure is wrong. The threshold itself is right."""

    ABOVE = "above"
    BELOW = "below"


class Unit(Enum):
    COUNT = ""
    SECONDS = "seconds"
    MILLISECONDS = "ms"
    RATIO = "ratio"
    PER_SECOND = "per second"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    name: str
    severity: Severity
    scope: Scope
    subject: str  # what its subjects are, for the guide
    means: str
    action: str
    threshold: float
    unit: Unit = Unit.COUNT
    side: Side = Side.ABOVE
    fires_after_ms: int  # so long the figure is beyond the threshold before the alert fires
    clears_after_ms: int  # so long it is within before the alert clears

    def __post_init__(self) -> None:
        assert self.fires_after_ms >= 0, self.name
        assert self.clears_after_ms >= 0, self.name

    def is_beyond(self, value: float) -> bool:
        return value > self.threshold if self.side is Side.ABOVE else value < self.threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A rule that is not evaluated, and why."""

    name: str
    reason: str
