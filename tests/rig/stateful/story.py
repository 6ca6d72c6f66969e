"""What goes into a stateful query, batch by batch, and the truth of it. One file for each query."""

import random
from collections.abc import Hashable, Iterator, Mapping
from typing import Protocol, TypeVar

from penstock.spark.pipelines.generated import Event
from rig.stateful.truth import Truth

T = TypeVar("T")


class Story(Protocol):
    """Tells the events of one batch after the other, and works out by plain loops what follows."""

    @property
    def topics(self) -> Mapping[str, int]:
        """What is read, and in how many partitions each: no task reads less than one of them."""

    @property
    def truth(self) -> Truth: ...

    def batch(self) -> list[Event]:
        """The next one; the truth knows of it when this returns."""

    def state_of(self, value: bytes) -> Hashable:
        """What a record of the output says, in the form that the truth has it in."""


def dealt(
    events: Iterator[T], *, size: int, hands: int, chance: random.Random
) -> Iterator[list[T]]:
    """Batches of about one size. Each event comes in one of the next `hands` batches, so that what
    happens to a key within minutes is spread over several: else hardly a state would last longer
    than its batch.
    """
    held: list[list[T]] = [[] for _ in range(hands)]
    for event in events:
        held[chance.randrange(hands)].append(event)
        if len(held[0]) >= size:
            yield held.pop(0)
            held.append([])
