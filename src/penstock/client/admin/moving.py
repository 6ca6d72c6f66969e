"""Moves of partitions from their beginning to their end: throttle, begin, follow, clean up.

The controller knows what moves. Brokers tell where partitions are, and may be some milliseconds
behind it.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum

from penstock.client.admin.reassignment_plan import Targets
from penstock.client.admin.reassignments import (
    Reassignment,
    alter_reassignments,
    list_reassignments,
)
from penstock.client.admin.replica_sizes import Copied, copied, replica_sizes
from penstock.client.admin.replication_throttle import (
    Move,
    remove_throttles,
    throttle,
    throttles,
)
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Refused
from penstock.client.network.repeated import repeated
from penstock.client.network.routing import ClusterView
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass

BEHIND_MS_MAX = 2_000  # so long a broker may be behind the controller
ENDED = frozenset({ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Stage(Enum):
    MOVING = "moving"
    COMPLETE = "complete"
    ELSEWHERE = "elsewhere"  # neither there nor on the way


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A partition that was to move, and what became of it."""

    partition: TopicPartition
    replicas: tuple[NodeId, ...]
    target: tuple[NodeId, ...]
    stage: Stage
    copied: Copied | None = None  # while it moves


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """What became of moves that were to be cancelled."""

    cancelled: list[TopicPartition]
    ended: list[TopicPartition]  # before they could be: complete, or deleted with their topic
    refused: list[Refused]  # these go on


def moves_to(
    view: ClusterView, targets: Targets, running: Mapping[TopicPartition, Reassignment]
) -> list[Move]:
    """What begins, or goes on, if partitions are to be there. Those that are there are left out."""
    moves = []
    for place, target in targets.items():
        known = view.partition(place)
        assert known is not None
        moving = running.get(place)
        if moving is None and known.replicas == target:
            continue
        moves.append(Move(partition=place, replicas=_origin(known.replicas, moving), target=target))
    return moves


async def begin_moves(
    cluster: Cluster,
    moves: Sequence[Move],
    running: Mapping[TopicPartition, Reassignment],
    *,
    rate_bytes: int | None,
    may_change_factor: bool,
) -> None:
    """The throttle comes first, and is removed if no move begins. Refused by the first partition
    that was; the message says how many others move nevertheless.
    """
    if rate_bytes is not None:
        held_back = _throttled(moves, running.values())
        await repeated(cluster, lambda: throttle(cluster, held_back, rate_bytes=rate_bytes))
    targets = {move.partition: move.target for move in moves}
    results: Mapping[TopicPartition, Refused | None]
    try:
        results = await alter_reassignments(cluster, targets, may_change_factor=may_change_factor)
    except Refused as refusal:
        results = dict.fromkeys(targets, refusal)
    except ClientError:
        if rate_bytes is not None:
            with suppress(ClientError):  # what was asked may have begun: then its throttle stays
                await end_throttles(cluster, {place.topic for place in targets})
        raise
    refused = [result for result in results.values() if result is not None]
    if not refused:
        return
    first, begun = refused[0], len(results) - len(refused)
    if begun == 0:
        if rate_bytes is not None:
            await end_throttles(cluster, {place.topic for place in targets})
        raise first
    said = first.message or first.code.name
    raise Refused(first.code, first.about, f"{said} ({begun} of {len(results)} moves have begun)")


async def follow_moves(cluster: Cluster, targets: Targets) -> list[Followed]:
    """How far each partition is on its way."""
    running = await list_reassignments(cluster, targets)
    sizes = await replica_sizes(cluster, {place: one.replicas for place, one in running.items()})
    done = copied(running.values(), sizes)
    view = await _arrived(cluster, {p: t for p, t in targets.items() if p not in running})
    found = []
    for place, target in targets.items():
        known, moving = view.partition(place), running.get(place)
        replicas = () if known is None else known.replicas
        if moving is not None:
            stage = Stage.MOVING
        else:
            stage = Stage.COMPLETE if replicas == target else Stage.ELSEWHERE
        found.append(
            Followed(
                partition=place,
                replicas=replicas if moving is None else _origin(moving.replicas, moving),
                target=target,
                stage=stage,
                copied=done.get(place),
            )
        )
    return found


async def cancel_moves(cluster: Cluster, places: Collection[TopicPartition]) -> Cancelled:
    """Back to where they began, each by itself."""
    told = Cancelled(cancelled=[], ended=[], refused=[])
    results = await alter_reassignments(cluster, dict.fromkeys(places, None)) if places else {}
    for place, refusal in results.items():
        if refusal is None:
            told.cancelled.append(place)
        elif refusal.code in ENDED:
            told.ended.append(place)
        else:
            told.refused.append(refusal)
    return told


async def end_throttles(cluster: Cluster, topics: Iterable[str]) -> list[str]:
    """Removes the throttles that nothing needs any more: those of topics without moves, and the
    rates of brokers once nothing moves at all. What was removed is named.
    """
    running = await list_reassignments(cluster)
    moving = {place.topic for place in running}
    still = [topic for topic in topics if topic not in moving]
    removed: set[str] = set()

    async def remove() -> None:
        brokers = () if running else (await cluster.refresh()).brokers
        there = await throttles(cluster, still, brokers)
        removed.update(map(str, there))
        if there:
            await remove_throttles(cluster, there)

    await repeated(cluster, remove)
    return sorted(removed)


def _origin(replicas: tuple[NodeId, ...], moving: Reassignment | None) -> tuple[NodeId, ...]:
    """Who held the partition before it began to move."""
    if moving is None:
        return replicas
    return tuple(node for node in moving.replicas if node not in moving.adding)


def _throttled(moves: Iterable[Move], running: Iterable[Reassignment]) -> list[Move]:
    """The settings of a topic list all its moves, so those that run already are among them."""
    wanted = {move.partition: move for move in moves}
    topics = {place.topic for place in wanted}
    for one in running:
        if one.partition.topic in topics:
            wanted.setdefault(
                one.partition,
                Move(
                    partition=one.partition,
                    replicas=_origin(one.replicas, one),
                    target=one.target,
                ),
            )
    return list(wanted.values())


async def _arrived(cluster: Cluster, targets: Targets) -> ClusterView:
    """A view that has these partitions where the controller says they are, if it comes soon."""
    deadline_ms = cluster.clock.monotonic_ms() + BEHIND_MS_MAX
    topics = dict.fromkeys(place.topic for place in targets)
    while True:
        view = await repeated(cluster, lambda: cluster.refresh(topics))
        late = [
            place
            for place, target in targets.items()
            if (known := view.partition(place)) is not None and known.replicas != target
        ]
        if not late or cluster.clock.monotonic_ms() >= deadline_ms:
            return view
        await asyncio.sleep(cluster.rules.backoff_ms / 1000)
