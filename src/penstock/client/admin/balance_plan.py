"""A plan that evens out the load of brokers with few bytes copied. Pure.

The load of a broker is what its replicas take and give in bytes a second, with a price for each
request that writes, which its leader pays. A leader takes what is written, gives it to each
follower, and gives what is read; a follower takes what is written. A move of a leader or a replica
takes load from one broker to another and leaves the sum as it is.

The plan is greedy. What counts is the excess: the load above `limit` times the mean, summed up over
brokers. As long as there is some, the next step is the first of these that exists:
 1. the leader change that lessens the excess most: it copies nothing;
 2. the move of a replica that lessens the excess most for each byte that it copies;
 3. a leader change, or the move of a replica for the fewest bytes, that makes two brokers more
    alike, so that the one above the limit finds room. A few of these at a time: if nothing lessens
    the excess after them, they are taken back, and the plan ends.

Invariants of a plan:
 1. No partition has two replicas on a broker, nor fewer or more of them than before, nor are they
    on fewer racks than before.
 2. Load is taken from a broker only to one that stays below what the former had: so no broker ends
    above the highest load of before.
 3. Partitions whose replicas are not all in sync stay as they are, and new replicas are on brokers
    that live.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass

LIMIT_DEFAULT = 1.3
REQUEST_PRICE_BYTES = 2_048  # a request costs a broker about as much as so many bytes
ROOM_STEPS_MAX = 4  # in a row
COPY_BYTES_MIN = 1  # so that copies of empty partitions can be compared
TINY_SHARE = 1e-9  # of the sum: what is smaller is an error of rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """A partition as it is, and what was measured of it, per second."""

    partition: TopicPartition
    leader: NodeId
    replicas: tuple[NodeId, ...]  # as they are listed: the first one is preferred as leader
    size_bytes: int
    in_bytes: float
    out_bytes: float = 0.0  # to readers; followers are counted by their number
    requests: float = 0.0  # that write, as far as they are known
    is_whole: bool = True  # all replicas are in sync

    def __post_init__(self) -> None:
        assert self.leader in self.replicas
        assert len(set(self.replicas)) == len(self.replicas)
        assert min(self.in_bytes, self.out_bytes, self.requests) >= 0

    @property
    def follower_load(self) -> float:
        return self.in_bytes

    @property
    def leader_load(self) -> float:
        to_followers = self.in_bytes * (len(self.replicas) - 1)
        price = self.requests * REQUEST_PRICE_BYTES
        return self.in_bytes + to_followers + self.out_bytes + price

    def load_of(self, node: NodeId) -> float:
        return self.leader_load if node == self.leader else self.follower_load


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What the plan does to one partition."""

    before: PartitionLoad
    leader: NodeId
    target: tuple[NodeId, ...]  # the leader first

    @property
    def partition(self) -> TopicPartition:
        return self.before.partition

    @property
    def added(self) -> tuple[NodeId, ...]:
        return tuple(node for node in self.target if node not in self.before.replicas)

    @property
    def copied_bytes(self) -> int:
        return self.before.size_bytes * len(self.added)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlan:
    changes: tuple[Change, ...]  # leader changes first, then copies; each by name
    loads_before: Mapping[NodeId, float]
    loads_after: Mapping[NodeId, float]
    requests_before: Mapping[NodeId, float]  # a second, to partitions that a broker leads
    requests_after: Mapping[NodeId, float]
    limit: float

    @property
    def copied_bytes(self) -> int:
        return sum(change.copied_bytes for change in self.changes)

    @property
    def mean(self) -> float:
        return sum(self.loads_before.values()) / len(self.loads_before)

    @property
    def is_balanced(self) -> bool:
        """Whether no broker is above the limit once all is done."""
        return max(self.loads_after.values()) <= self.limit * self.mean * (1 + TINY_SHARE)


def node_loads(
    partitions: Sequence[PartitionLoad], racks: Mapping[NodeId, str | None]
) -> dict[NodeId, float]:
    """What each of the brokers has to do, in bytes a second."""
    loads = dict.fromkeys(racks, 0.0)
    for one in partitions:
        for node in one.replicas:
            if node in loads:
                loads[node] += one.load_of(node)
    return loads


def node_requests(
    partitions: Sequence[PartitionLoad], racks: Mapping[NodeId, str | None]
) -> dict[NodeId, float]:
    """Requests that write to the partitions that each of the brokers leads."""
    requests = dict.fromkeys(racks, 0.0)
    for one in partitions:
        if one.leader in requests:
            requests[one.leader] += one.requests
    return requests


def plan_balance(
    partitions: Sequence[PartitionLoad],
    racks: Mapping[NodeId, str | None],
    *,
    limit: float = LIMIT_DEFAULT,
    may_copy: bool = True,
) -> BalancePlan:
    """`racks` names the brokers that live, each with its rack; without `may_copy` only leaders
    are moved.
    """
    assert limit > 1
    assert racks
    state = _State(partitions, racks, limit=limit)
    before = dict(state.loads)
    room: list[_Step] = []
    while state.has_excess and len(room) <= ROOM_STEPS_MAX:
        if (step := state.best_relief(may_copy=may_copy)) is not None:
            room.clear()
        elif (step := state.best_room(may_copy=may_copy)) is not None:
            room.append(step)
        else:
            break
        state.take(step)
    for step in reversed(room):
        state.take_back(step)
    changes = [
        Change(before=old, leader=new.leader, target=new.replicas)
        for old, new in zip(partitions, state.partitions, strict=True)
        if old != new
    ]
    changes.sort(key=lambda change: (change.copied_bytes > 0, change.partition))
    return BalancePlan(
        changes=tuple(changes),
        loads_before=before,
        loads_after=state.loads,
        requests_before=node_requests(partitions, racks),
        requests_after=node_requests(state.partitions, racks),
        limit=limit,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    index: int
    before: PartitionLoad
    after: PartitionLoad
    source: NodeId
    sink: NodeId
    moved: float  # the load that goes from source to sink
    copied_bytes: int


class _State:
    """Partitions as far as the plan has brought them, and what brokers would have to do then."""

    def __init__(
        self,
        partitions: Sequence[PartitionLoad],
        racks: Mapping[NodeId, str | None],
        *,
        limit: float,
    ) -> None:
        self.partitions = list(partitions)
        self.loads = node_loads(partitions, racks)
        self._origin = tuple(partitions)
        self._racks = racks
        whole = sum(self.loads.values())
        self._bound = limit * whole / len(racks)
        self._tiny = whole * TINY_SHARE

    @property
    def has_excess(self) -> bool:
        return bool(self._full())

    def best_relief(self, *, may_copy: bool) -> _Step | None:
        """Of the steps that lessen the excess."""
        full = self._full()
        step = self._best(self._leader_changes(full), self._relief)
        if step is None and may_copy:
            step = self._best(self._copies(full), self._relief)
        return step

    def best_room(self, *, may_copy: bool) -> _Step | None:
        """Of the steps that make brokers more alike."""
        every = set(self.loads)
        step = self._best(self._leader_changes(every), self._likeness)
        if step is None and may_copy:
            step = self._best(self._copies(every), self._likeness)
        return step

    def take(self, step: _Step) -> None:
        self.partitions[step.index] = step.after
        self.loads[step.source] -= step.moved
        self.loads[step.sink] += step.moved

    def take_back(self, step: _Step) -> None:
        self.partitions[step.index] = step.before
        self.loads[step.source] += step.moved
        self.loads[step.sink] -= step.moved

    def _full(self) -> set[NodeId]:
        return {node for node, load in self.loads.items() if load > self._bound + self._tiny}

    def _best(self, steps: Iterator[_Step], gain_of: Callable[[_Step], float]) -> _Step | None:
        """The highest gain for each byte; of equal ones that after which the two are most alike,
        and of those the first by name.
        """
        best, best_rank = None, (0.0, 0.0)
        for step in steps:
            if self.loads[step.sink] + step.moved >= self.loads[step.source]:
                continue  # invariant 2
            gain = gain_of(step)
            if gain <= self._tiny:
                continue
            rank = (gain / max(step.copied_bytes, COPY_BYTES_MIN), -abs(self._apart(step)))
            if best is None or rank > best_rank:
                best, best_rank = step, rank
        return best

    def _relief(self, step: _Step) -> float:
        """By how much the excess falls."""
        source, sink = self.loads[step.source], self.loads[step.sink]
        before = self._excess(source) + self._excess(sink)
        return before - self._excess(source - step.moved) - self._excess(sink + step.moved)

    def _likeness(self, step: _Step) -> float:
        """By how much the difference of the two falls."""
        before = self.loads[step.source] - self.loads[step.sink]
        return before - abs(self._apart(step))

    def _excess(self, load: float) -> float:
        return max(0.0, load - self._bound)

    def _apart(self, step: _Step) -> float:
        return self.loads[step.source] - self.loads[step.sink] - 2 * step.moved

    def _leader_changes(self, full: set[NodeId]) -> Iterator[_Step]:
        for index, one in enumerate(self.partitions):
            if one.leader not in full or not self._may_change(one):
                continue
            for node in one.replicas:
                # A replica that is yet to be copied can lead too, at the end of its copy.
                if node == one.leader:
                    continue
                others = tuple(other for other in one.replicas if other != node)
                yield _Step(
                    index=index,
                    before=one,
                    after=replace(one, leader=node, replicas=(node, *others)),
                    source=one.leader,
                    sink=node,
                    moved=one.leader_load - one.follower_load,
                    copied_bytes=0,
                )

    def _copies(self, full: set[NodeId]) -> Iterator[_Step]:
        for index, one in enumerate(self.partitions):
            if not self._may_change(one):
                continue
            for old in one.replicas:
                if old not in full:
                    continue
                for new in self.loads:
                    if new in one.replicas or not self._keeps_racks(one.replicas, old, new):
                        continue
                    leader = new if one.leader == old else one.leader
                    kept = tuple(new if node == old else node for node in one.replicas)
                    others = tuple(node for node in kept if node != leader)
                    yield _Step(
                        index=index,
                        before=one,
                        after=replace(one, leader=leader, replicas=(leader, *others)),
                        source=old,
                        sink=new,
                        moved=one.load_of(old),
                        copied_bytes=self._copied_bytes(index, old=old, new=new),
                    )

    def _may_change(self, one: PartitionLoad) -> bool:
        return one.is_whole and all(node in self.loads for node in one.replicas)

    def _copied_bytes(self, index: int, *, old: NodeId, new: NodeId) -> int:
        """What the plan has to copy for it: nothing for a way back, or for going on elsewhere."""
        origin = self._origin[index]
        if new in origin.replicas or old not in origin.replicas:
            return 0
        return origin.size_bytes

    def _keeps_racks(self, replicas: Sequence[NodeId], old: NodeId, new: NodeId) -> bool:
        before = {self._racks.get(node) for node in replicas}
        after = {self._racks.get(node) for node in replicas if node != old} | {self._racks[new]}
        return len(after) >= len(before)
