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

from collections.abc import Callable, Mapping, Sequence

from penstock.client.admin.balance_search import TINY_SHARE, Placed, Search, Step
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass

LIMIT_DEFAULT = 1.3
REQUEST_PRICE_BYTES = 2_048  # a request costs a broker about as much as so many bytes
ROOM_STEPS_MAX = 4  # in a row


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
    def added_bytes(self) -> dict[NodeId, int]:
        """What each broker gets by copies."""
        found: dict[NodeId, int] = {}
        for change in self.changes:
            for node in change.added:
                found[node] = found.get(node, 0) + change.before.size_bytes
        return found

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
    shown: Callable[[float], None] = lambda done: None,
) -> BalancePlan:
    """`racks` names the brokers that live, each with its rack; without `may_copy` only leaders
    are moved. `shown` is called before each step with the share of the excess that is gone; what it
    raises ends the plan.
    """
    assert limit > 1
    assert racks
    before = node_loads(partitions, racks)
    placed = [_placed(one, racks) for one in partitions]
    search = Search(placed, before, racks, limit=limit, may_copy=may_copy)
    room: list[Step] = []
    at_first = search.excess
    while (excess := search.excess) and len(room) <= ROOM_STEPS_MAX:
        shown(max(0.0, 1 - excess / at_first))
        if (step := search.best_relief()) is not None:
            room.clear()
        elif (step := search.best_room()) is not None:
            room.append(step)
        else:
            break
        search.take(step)
    for step in reversed(room):
        search.take_back(step)
    found = map(_change, partitions, placed)
    changes = [change for change in found if change is not None]
    changes.sort(key=lambda change: (change.copied_bytes > 0, change.partition))
    requests_after = dict.fromkeys(racks, 0.0)
    for one, then in zip(partitions, placed, strict=True):
        if then.leader in requests_after:
            requests_after[then.leader] += one.requests
    return BalancePlan(
        changes=tuple(changes),
        loads_before=before,
        loads_after=search.loads,
        requests_before=node_requests(partitions, racks),
        requests_after=requests_after,
        limit=limit,
    )


def _placed(one: PartitionLoad, racks: Mapping[NodeId, str | None]) -> Placed:
    return Placed(
        leader=one.leader,
        replicas=one.replicas,
        leader_load=one.leader_load,
        follower_load=one.follower_load,
        size_bytes=one.size_bytes,
        may_change=one.is_whole and all(node in racks for node in one.replicas),
    )


def _change(before: PartitionLoad, after: Placed) -> Change | None:
    if (before.leader, before.replicas) == (after.leader, after.replicas):
        return None
    return Change(before=before, leader=after.leader, target=after.replicas)
