"""How fast replicas are copied while partitions move, by the sizes of files at their new nodes.

A throttle holds for replicas that are out of sync, so only what comes before a replica is in sync
counts. A broker is limited in each direction: what it fetches, and what it sends as a leader.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from rig.failover.questions import PartitionState, partition_states

LOOK_SECONDS = 0.05


class Place(NamedTuple):
    """A replica that is copied."""

    topic: str
    partition: int
    node: int


class NodesWithData(Protocol):
    addresses: dict[int, str]

    def data(self, number: int) -> Path: ...


class CopyRates:
    """Measures from the first byte until a replica of `until_topic` is in sync: from then on there
    is less to copy than the throttle would let pass. Use as a context, around the move.
    """

    def __init__(
        self,
        cluster: NodesWithData,
        added: Mapping[tuple[str, int], list[int]],
        *,
        until_topic: str,
    ) -> None:
        self.seconds = 0.0
        self.copied: Counter[Place] = Counter()  # bytes, while out of sync
        self._cluster = cluster
        self._until_topic = until_topic
        self._places = [Place(*place, node) for place, nodes in added.items() for node in nodes]
        self._leaders = {
            place: state.leader
            for topic in {place.topic for place in self._places}
            for place, state in self._states(topic).items()
        }
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure, name="copy-rates")

    def fetched_per_second(self) -> dict[int, float]:
        """Of each node that gets replicas."""
        return self._per_second({place: place.node for place in self._places})

    def sent_per_second(self) -> dict[int, float]:
        """Of each leader."""
        leaders = {place: self._leaders[place.topic, place.partition] for place in self._places}
        return self._per_second(
            {place: leader for place, leader in leaders.items() if leader is not None}
        )

    def busiest_per_second(self) -> float:
        """Of all nodes and directions: the one that the throttle holds back."""
        rates = [*self.fetched_per_second().values(), *self.sent_per_second().values()]
        return max(rates, default=0)

    def _per_second(self, of_node: Mapping[Place, int]) -> dict[int, float]:
        copied: Counter[int] = Counter()
        for place, node in of_node.items():
            copied[node] += self.copied[place]
        return {
            node: count / self.seconds if self.seconds else 0
            for node, count in sorted(copied.items())
        }

    def _measure(self) -> None:
        began: float | None = None
        before: dict[Place, int] = {}
        while not self._over.is_set():
            now = time.monotonic()
            sizes = {place: self._size_bytes(place) for place in self._places}
            in_sync = self._in_sync()
            if any(place.topic == self._until_topic for place in in_sync):
                return
            if began is None and any(sizes.values()):
                began, before = now, sizes
            elif began is not None:
                for place, size_bytes in sizes.items():
                    if place not in in_sync:
                        self.copied[place] += max(0, size_bytes - before[place])
                self.seconds, before = now - began, sizes
            self._over.wait(LOOK_SECONDS)

    def _in_sync(self) -> set[Place]:
        found: set[Place] = set()
        for topic in {place.topic for place in self._places}:
            states = self._states(topic)
            found.update(
                place
                for place in self._places
                if place.topic == topic
                and place.node in states[place.topic, place.partition].in_sync
            )
        return found

    def _states(self, topic: str) -> dict[tuple[str, int], PartitionState]:
        address = next(iter(self._cluster.addresses.values()))
        return {(topic, index): state for index, state in partition_states(address, topic).items()}

    def _size_bytes(self, place: Place) -> int:
        directory = self._cluster.data(place.node) / f"{place.topic}-{place.partition}"
        total = 0
        for segment in directory.glob("*.log"):
            try:
                total += segment.stat().st_size
            except FileNotFoundError:
                continue  # it was removed since
        return total

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
