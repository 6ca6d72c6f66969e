"""Metrics as values: families, their samples, and where samples come from.

A family is what Prometheus calls a metric: a name, a kind, a sentence, and the names of its labels.
A `Source` tells the samples of its families when it is asked. It does so by a generator, which also
yields None after each step that has nothing to tell: whoever asks counts the steps, and lets others
have their turn in between. What a source knew before a `yield` may be old after it.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from penstock.model.lazy_dataclass import dataclass

TOTAL = "_total"  # how the name of a counter ends
BUCKET = "_bucket"
COUNT = "_count"
SUM = "_sum"
BOUND = "le"  # the label of a bucket: its upper bound


class Kind(Enum):
    """By the words of the exposition format."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert (self.kind is Kind.COUNTER) == self.name.endswith(TOTAL), self.name

    def sample(self, value: float, *labels: str) -> "Sample":
        assert len(labels) == len(self.labels), (self.name, labels)
        return Sample(self, value, labels)


class Sample(NamedTuple):
    """One value of a family; labels are in the order of the family's names of them."""

    family: Family
    value: float
    labels: tuple[str, ...] = ()
    suffix: str = ""  # of a histogram; a bucket has its bound as one more label


Steps = Iterator[Sample | None]


class Source(NamedTuple):
    families: tuple[Family, ...]
    samples: Callable[[], Steps]


def gauge(name: str, help_text: str, *labels: str) -> Family:
    return Family(name=name, kind=Kind.GAUGE, help=help_text, labels=labels)


def counter(name: str, help_text: str, *labels: str) -> Family:
    return Family(name=name, kind=Kind.COUNTER, help=help_text, labels=labels)


def printable(text: str) -> str:
    """A label of what the system names: a path may hold bytes that are no text."""
    return text.encode("utf-8", "backslashreplace").decode()
