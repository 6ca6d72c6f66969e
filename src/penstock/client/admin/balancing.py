"""A plan of balance from what a cluster tells, and its execution in steps.

Leaders change first: the order of replicas, which copies nothing, and an election. Then replicas
are copied, a few partitions at a time, each step to its end. A step begins only if nothing else
moves and its partitions are where they were measured: what others changed meanwhile stays.
`Execution.run` may be cancelled: `clean_up` cancels the step at hand too, so that no partition is
left half moved.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence

from penstock.client.admin.balance_plan import BalancePlan, Change, PartitionLoad, plan_balance
from penstock.client.admin.moving import (
    Followed,
    Stage,
    begin_moves,
    cancel_moves,
    end_throttles,
    follow_moves,
)
from penstock.client.admin.partition_rates import PartitionRate
from penstock.client.admin.reassignment_plan import Targets
from penstock.client.admin.reassignments import (
    Election,
    alter_reassignments,
    elect_leaders,
    list_reassignments,
)
from penstock.client.admin.replication_throttle import Move
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Refused
from penstock.client.network.repeated import repeated
from penstock.client.network.routing import ClusterView
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass

LOOK_SECONDS = 0.5
STEP_WAIT_MS_MAX = 3_000  # longer than a balance takes between two of its steps
STEP_LOOK_SECONDS = 0.02  # a small partition moves in less time than `LOOK_SECONDS`


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    cancelled: list[TopicPartition]
    throttles_removed: list[str]


class MovesRun(ClientError):
    """Something moves already: its load is not where it will be."""


class StoppedElsewhere(ClientError):
    """Somebody else has cancelled the moves of a step."""


class PlanOutdated(ClientError):
    """Somebody else has changed the replicas of a partition since it was measured."""


class PlanGivenUp(ClientError):
    """Nobody waits for the plan any more."""


async def refuse_while_moving(cluster: Cluster) -> None:
    running = await list_reassignments(cluster)
    if running:
        many = "1 partition is" if len(running) == 1 else f"{len(running)} partitions are"
        raise MovesRun(
            f"{many} moving already: wait for `penstock partitions reassign --verify --watch`, or"
            " cancel with `penstock partitions balance --stop`"
        )


def loads_of(view: ClusterView, rates: Sequence[PartitionRate]) -> list[PartitionLoad]:
    """Partitions that have a leader, with what was measured of them."""
    found = []
    for rate in rates:
        known, leader = view.partition(rate.partition), view.leader_of(rate.partition)
        if known is None or leader is None or leader not in known.replicas:
            continue
        found.append(
            PartitionLoad(
                partition=rate.partition,
                leader=leader,
                replicas=known.replicas,
                size_bytes=rate.size_bytes,
                in_bytes=rate.in_bytes,
                out_bytes=rate.out_bytes,
                requests=rate.requests or 0.0,
                is_whole=set(known.in_sync) == set(known.replicas),
            )
        )
    return found


async def plan_for(
    view: ClusterView,
    rates: Sequence[PartitionRate],
    *,
    limit: float,
    shown: Callable[[float], None] = lambda done: None,
) -> BalancePlan:
    """In a thread of its own, which ends soon when this is cancelled. It calls `shown` with the
    share of the excess that the plan has dealt with.
    """
    racks = {node: broker.rack for node, broker in sorted(view.brokers.items())}
    given_up = threading.Event()

    def look(done: float) -> None:
        if given_up.is_set():
            raise PlanGivenUp
        shown(done)

    def plan() -> BalancePlan:
        return plan_balance(loads_of(view, rates), racks, limit=limit, shown=look)

    try:
        return await asyncio.to_thread(plan)
    finally:
        given_up.set()


class Execution:
    """Use `run` once; `done` tells how far it came."""

    def __init__(
        self,
        cluster: Cluster,
        plan: BalancePlan,
        *,
        rate_bytes: int,
        at_once: int,
        shown: Callable[[Sequence[Followed]], None],
    ) -> None:
        self.done: list[TopicPartition] = []
        self.cancelled: list[TopicPartition] = []
        self._cluster = cluster
        self._plan = plan
        self._rate_bytes = rate_bytes
        self._at_once = at_once
        self._shown = shown
        self._at_hand: Sequence[Change] = ()

    async def run(self) -> None:
        """MovesRun when something else moves, PlanOutdated when partitions are not where they were
        measured, StoppedElsewhere when moves of ours were cancelled by somebody else.
        """
        free = [change for change in self._plan.changes if not change.added]
        copies = [change for change in self._plan.changes if change.added]
        if free:
            await self._step(free)
        for start in range(0, len(copies), self._at_once):
            await self._step(copies[start : start + self._at_once])

    async def clean_up(self) -> None:
        """Cancels what is at hand, if anything is, and removes the throttle."""
        if self._at_hand:
            ours = {change.partition for change in self._at_hand}
            moving = [place for place in await list_reassignments(self._cluster) if place in ours]
            # One that was completed just now has nothing to cancel any more.
            results = await alter_reassignments(self._cluster, dict.fromkeys(moving, None))
            self.cancelled = [place for place, refusal in results.items() if refusal is None]
        await end_throttles(
            self._cluster, {change.partition.topic for change in self._plan.changes}
        )

    async def _step(self, changes: Sequence[Change]) -> None:
        await refuse_while_moving(self._cluster)
        await self._refuse_outdated(changes)
        self._at_hand = changes
        moves = [
            Move(partition=change.partition, replicas=change.before.replicas, target=change.target)
            for change in changes
        ]
        rate_bytes = self._rate_bytes if any(move.added for move in moves) else None
        ordered = [move for move in moves if move.replicas != move.target]
        if ordered:
            await begin_moves(
                self._cluster, ordered, {}, rate_bytes=rate_bytes, may_change_factor=False
            )
        await self._until_there({move.partition: move.target for move in moves})
        self._at_hand = ()
        results = await elect_leaders(
            self._cluster, Election.PREFERRED, [change.partition for change in changes]
        )
        for refusal in results.values():
            if refusal is not None and refusal.code != ErrorCode.ELECTION_NOT_NEEDED:
                raise refusal
        self.done += [change.partition for change in changes]

    async def _refuse_outdated(self, changes: Sequence[Change]) -> None:
        topics = {change.partition.topic for change in changes}
        view = await repeated(self._cluster, lambda: self._cluster.refresh(topics))
        for change in changes:
            known, before = view.partition(change.partition), change.before.replicas
            if known is None:
                raise PlanOutdated(f"{change.partition} was deleted since it was measured")
            if known.replicas != before:
                raise PlanOutdated(
                    f"{change.partition} is on {_listed(known.replicas)}, and was on"
                    f" {_listed(before)} when it was measured: balance again"
                )

    async def _until_there(self, targets: Targets) -> None:
        while True:
            found = await follow_moves(self._cluster, targets)
            self._shown(found)
            lost = [one.partition for one in found if one.stage is Stage.ELSEWHERE]
            if lost:
                raise StoppedElsewhere(f"the move of {lost[0]} was cancelled by somebody else")
            if all(one.stage is Stage.COMPLETE for one in found):
                return
            await asyncio.sleep(LOOK_SECONDS)


async def stop_all(cluster: Cluster) -> Stopped:
    """Cancels whatever moves, and removes throttles. Between two steps of a balance nothing moves,
    so that it is looked for repeatedly; the balance itself ends when its move is cancelled. Refused
    if there was nothing to stop and no throttle to remove, or by the first move that cannot be
    cancelled; the message says how many others were.
    """
    deadline_ms = cluster.clock.monotonic_ms() + STEP_WAIT_MS_MAX
    while True:
        told = await cancel_moves(cluster, await list_reassignments(cluster))
        if told.cancelled or told.refused or cluster.clock.monotonic_ms() >= deadline_ms:
            break
        await asyncio.sleep(STEP_LOOK_SECONDS)
    topics = (await repeated(cluster, cluster.refresh_all)).topics
    ended = await end_throttles(cluster, topics)
    if told.refused:
        first = told.refused[0]
        said = first.message or first.code.name
        count = len(told.cancelled) + len(told.ended) + len(told.refused)
        counted = f"{len(told.cancelled)} of {count} moves were cancelled"
        raise Refused(first.code, first.about, f"{said} ({counted})")
    if not told.cancelled and not ended:
        code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        raise Refused(code, "", "nothing to stop: no partition moves")
    return Stopped(cancelled=told.cancelled, throttles_removed=ended)


def _listed(nodes: Sequence[NodeId]) -> str:
    return ",".join(map(str, nodes))
