"""The steps that a plan of balance may take, and the best of them. Pure.

A step moves the lead of a partition to another of its replicas, or a replica to another broker.
Copies are compared by what they gain at the emptiest broker that may get them, since none lessens
the excess more, and at brokers that hold a replica of the partition today, to which nothing is
copied. The best copy goes to the fullest broker where it gains as much.

A cluster may have tens of thousands of partitions, and a plan as many steps, so that no step looks
at all of them. Candidates wait in a queue ordered by the most that each may gain for a byte. The
first one is evaluated: if its gain is still at least what the next one may gain, it is the best.
What a candidate may gain only falls while the same brokers are full: sources lose load, and sinks
gain some. Once that set is another one, the queue is filled anew.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from penstock.model.identity import NodeId

COPY_BYTES_MIN = 1  # so that copies of empty partitions can be compared
TINY_SHARE = 1e-9  # of the sum: what is smaller is an error of rounding
EQUALS_MAX = 16  # candidates with the same gain that are compared with each other

Gain = Callable[[float, float, float], float]  # of source, sink and what is moved
Rank = tuple[float, float]
Candidate = tuple[float, int, NodeId]  # what it may gain at most, negative; partition; source


class Placed:
    """A partition as far as the plan has brought it, in numbers."""

    __slots__ = (
        "follower_load",
        "leader",
        "leader_load",
        "may_change",
        "origin",
        "replicas",
        "size_bytes",
    )

    def __init__(
        self,
        *,
        leader: NodeId,
        replicas: tuple[NodeId, ...],
        leader_load: float,
        follower_load: float,
        size_bytes: int,
        may_change: bool,
    ) -> None:
        self.leader = leader
        self.replicas = replicas
        self.origin = replicas
        self.leader_load = leader_load
        self.follower_load = follower_load
        self.size_bytes = size_bytes
        self.may_change = may_change


class Step(NamedTuple):
    position: int  # of the partition
    leader: NodeId  # before it
    replicas: tuple[NodeId, ...]
    source: NodeId
    sink: NodeId
    moved: float  # the load that goes from source to sink
    is_copy: bool


class Search:
    """Use `best_relief` and `best_room`, and `take` what they found."""

    def __init__(
        self,
        placed: Sequence[Placed],
        loads: Mapping[NodeId, float],
        racks: Mapping[NodeId, str | None],
        *,
        limit: float,
        may_copy: bool,
    ) -> None:
        self.placed = placed
        self.loads = dict(loads)
        self._racks = racks
        self._may_copy = may_copy
        whole = sum(self.loads.values())
        self._bound = limit * whole / len(racks)
        self._tiny = whole * TINY_SHARE
        self._by_load = sorted(self.loads, key=self._load_and_id)
        self._queued_for: frozenset[NodeId] | None = None  # the full brokers of the two queues
        self._lead_queue: list[Candidate] = []
        self._copy_queue: list[Candidate] = []

    @property
    def excess(self) -> float:
        """The load above the bound, of all brokers; 0 if no broker counts as full."""
        return sum(self._excess(self.loads[node]) for node in self._full())

    def best_relief(self) -> Step | None:
        """Of the steps that lessen the excess."""
        full = self._full()
        if self._queued_for != full:
            self._queued_for = full
            self._lead_queue = self._leads(full, self._relief_max)
            self._copy_queue = self._copies(full, self._relief_max)
        return self._best(self._lead_queue, self._lead, self._relief) or self._best(
            self._copy_queue, self._copy, self._relief
        )

    def best_room(self) -> Step | None:
        """Of the steps that make brokers more alike."""
        self._queued_for = None  # a broker that is not full loses load: others may gain more then
        every = frozenset(self.loads)
        step = self._best(self._leads(every, _likeness_max), self._lead, _likeness)
        if step is None:
            step = self._best(self._copies(every, _likeness_max), self._copy, _likeness)
        return step

    def take(self, step: Step) -> None:
        one = self.placed[step.position]
        if step.is_copy:
            leader = step.sink if one.leader == step.source else one.leader
            kept = [step.sink if node == step.source else node for node in one.replicas]
        else:
            leader, kept = step.sink, list(one.replicas)
        one.leader = leader
        one.replicas = (leader, *(node for node in kept if node != leader))
        self._move(step.source, step.sink, step.moved)
        self._queue_again(step.position)

    def take_back(self, step: Step) -> None:
        one = self.placed[step.position]
        one.leader, one.replicas = step.leader, step.replicas
        self._move(step.sink, step.source, step.moved)
        self._queued_for = None

    def _move(self, source: NodeId, sink: NodeId, moved: float) -> None:
        self.loads[source] -= moved
        self.loads[sink] += moved
        self._by_load.sort(key=self._load_and_id)

    def _load_and_id(self, node: NodeId) -> tuple[float, NodeId]:
        return self.loads[node], node

    def _full(self) -> frozenset[NodeId]:
        least = self._bound + self._tiny
        return frozenset(node for node, load in self.loads.items() if load > least)

    def _queue_again(self, index: int) -> None:
        """The candidates of a partition that was changed."""
        if self._queued_for is None:
            return
        one, full = self.placed[index], self._queued_for
        if one.leader in full:
            heapq.heappush(self._lead_queue, self._lead_candidate(index, self._relief_max))
        for node in one.replicas:
            if node in full and self._may_copy:
                candidate = self._copy_candidate(index, node, self._relief_max)
                heapq.heappush(self._copy_queue, candidate)

    # Queues

    def _leads(self, sources: frozenset[NodeId], gain_max: Gain) -> list[Candidate]:
        queue = [
            self._lead_candidate(index, gain_max)
            for index, one in enumerate(self.placed)
            if one.may_change and one.leader in sources and len(one.replicas) > 1
        ]
        heapq.heapify(queue)
        return queue

    def _copies(self, sources: frozenset[NodeId], gain_max: Gain) -> list[Candidate]:
        queue = [
            self._copy_candidate(index, node, gain_max)
            for index, one in enumerate(self.placed)
            if one.may_change and self._may_copy
            for node in one.replicas
            if node in sources
        ]
        heapq.heapify(queue)
        return queue

    def _lead_candidate(self, index: int, gain_max: Gain) -> Candidate:
        one = self.placed[index]
        moved = one.leader_load - one.follower_load
        return -gain_max(self.loads[one.leader], 0.0, moved), index, one.leader

    def _copy_candidate(self, index: int, source: NodeId, gain_max: Gain) -> Candidate:
        one = self.placed[index]
        moved = one.leader_load if source == one.leader else one.follower_load
        copied = one.size_bytes if one.replicas is one.origin else 0
        return (
            -gain_max(self.loads[source], 0.0, moved) / max(copied, COPY_BYTES_MIN),
            index,
            source,
        )

    def _best(
        self,
        queue: list[Candidate],
        evaluated: Callable[[int, NodeId, Gain], tuple[Rank, Step] | None],
        gain: Gain,
    ) -> Step | None:
        """The highest gain for each byte; of equal ones that after which the two are most alike,
        and of those the first by name. The others stay in the queue, if they gain something.
        """
        best: tuple[Rank, Step] | None = None
        equals, kept = 0, []
        while queue and equals < EQUALS_MAX and (best is None or -queue[0][0] >= best[0][0]):
            _, index, source = heapq.heappop(queue)
            found = evaluated(index, source, gain)
            if found is None:
                continue
            kept.append((-found[0][0], index, source))
            equals += best is not None and found[0][0] == best[0][0]
            if best is None or found[0] > best[0]:
                best = found
        for candidate in kept:
            heapq.heappush(queue, candidate)
        if best is None:
            return None
        step = best[1]
        if step.is_copy:
            best = self._copy(step.position, step.source, gain, to_all=True)
            assert best is not None
        return best[1]

    # Evaluation

    def _lead(self, index: int, source: NodeId, gain: Gain) -> tuple[Rank, Step] | None:
        one = self.placed[index]
        if one.leader != source:
            return None
        moved = one.leader_load - one.follower_load
        best: tuple[Rank, Step] | None = None
        # A replica that is yet to be copied can lead too, at the end of its copy.
        for sink in one.replicas:
            rank = None if sink == source else self._rank(source, sink, moved, 0, gain)
            if rank is not None and (best is None or rank > best[0]):
                best = rank, Step(index, source, one.replicas, source, sink, moved, is_copy=False)
        return best

    def _copy(
        self, index: int, source: NodeId, gain: Gain, *, to_all: bool = False
    ) -> tuple[Rank, Step] | None:
        """To the emptiest broker, or to one that held a replica at first. With `to_all` the broker
        may be any: of those where it gains as much, emptier ones stay free for larger loads.
        """
        one = self.placed[index]
        if source not in one.replicas:
            return None
        moved = one.leader_load if source == one.leader else one.follower_load
        best: tuple[Rank, Step] | None = None
        for sink in self._sinks(one, source, to_all=to_all):
            # Nothing is copied for a way back, or for going on elsewhere.
            is_free = sink in one.origin or source not in one.origin
            rank = self._rank(source, sink, moved, 0 if is_free else one.size_bytes, gain)
            if rank is not None and (best is None or rank > best[0]):
                before = one.leader, one.replicas
                best = rank, Step(index, *before, source, sink, moved, is_copy=True)
        return best

    def _sinks(self, one: Placed, source: NodeId, *, to_all: bool) -> list[NodeId]:
        racks = self._racks
        others = {racks[node] for node in one.replicas if node != source}
        may_share = racks[source] in others  # the replica adds no rack to those of the others
        at_first = () if one.replicas is one.origin else one.origin
        sinks: list[NodeId] = []
        for node in self._by_load:
            if node in one.replicas or not (may_share or racks[node] not in others):
                continue
            if to_all or not sinks or node in at_first:
                sinks.append(node)
            if not to_all and not at_first:
                break
        return sinks

    def _rank(
        self, source: NodeId, sink: NodeId, moved: float, copied_bytes: int, gain: Gain
    ) -> Rank | None:
        source_load, sink_load = self.loads[source], self.loads[sink]
        if sink_load + moved >= source_load:
            return None  # invariant 2 of a plan
        gained = gain(source_load, sink_load, moved)
        if gained <= self._tiny:
            return None
        apart = source_load - sink_load - 2 * moved
        return gained / max(copied_bytes, COPY_BYTES_MIN), -abs(apart)

    def _excess(self, load: float) -> float:
        return max(0.0, load - self._bound)

    def _relief(self, source: float, sink: float, moved: float) -> float:
        """By how much the excess falls."""
        before = self._excess(source) + self._excess(sink)
        return before - self._excess(source - moved) - self._excess(sink + moved)

    def _relief_max(self, source: float, _: float, moved: float) -> float:
        return min(moved, self._excess(source))


def _likeness(source: float, sink: float, moved: float) -> float:
    """By how much the difference of the two falls."""
    return source - sink - abs(source - sink - 2 * moved)


def _likeness_max(source: float, sink: float, moved: float) -> float:
    return 2 * moved
