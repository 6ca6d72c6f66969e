"""Logs rebalances with their causes, and counts them where metrics are told: a group is looked at
before and after each decision.
"""

import logging
from collections import Counter
from collections.abc import Callable

from penstock.groups.decide import Decided
from penstock.groups.rebalance_causes import (
    MAY_REBALANCE,
    Cause,
    Noted,
    Rebalance,
    Trigger,
    causes,
    noted,
)
from penstock.groups.shard import GroupShard
from penstock.groups.timers import DeletionGoesOn, OffsetsExpire
from penstock.model.events import GROUP_GENERATION, GROUP_REBALANCE
from penstock.world.event_log import tell

logger = logging.getLogger(__name__)

CAUSES_TOLD_MAX = 20  # of one decision

Rebalances = Counter[tuple[str, Cause]]  # by protocol and cause


class Watched:
    """One group while a decision is made about it."""

    __slots__ = ("_before", "_counts", "_group_id", "_shard", "_trigger")

    def __init__(
        self, shard: GroupShard, group_id: str, trigger: Trigger, counts: Rebalances | None
    ) -> None:
        self._counts = counts
        self._shard = shard
        self._group_id = group_id
        self._trigger = trigger
        self._before: Noted | None = noted(shard.groups.get(group_id), trigger)

    def log(self) -> None:
        """The decision is applied, or could not be stored."""
        group = self._shard.groups.get(self._group_id)
        for number, found in enumerate(causes(self._before, group, self._trigger)):
            if self._counts is not None and isinstance(found, Rebalance):
                self._counts[found.protocol, found.cause] += 1
            if number >= CAUSES_TOLD_MAX:
                continue
            if isinstance(found, Rebalance):
                member = found.member
                tell(
                    logger,
                    GROUP_REBALANCE,
                    group=found.group,
                    cause=found.cause.value,
                    member=None if member is None else member.member_id,
                    instance=None if member is None else member.instance_id,
                    client_id=None if member is None else member.client_id,
                    client_host=None if member is None else member.client_host,
                    generation=found.generation,
                    members=found.members,
                    state=found.state,
                    protocol=found.protocol,
                )
            else:
                tell(
                    logger,
                    GROUP_GENERATION,
                    group=found.group,
                    generation=found.generation,
                    members=found.members,
                    leader=found.leader,
                    protocol=found.protocol,
                )


def watched(shard: GroupShard, request: object, counts: Rebalances | None) -> Watched | None:
    """None where nothing is to be logged or counted."""
    if isinstance(request, MAY_REBALANCE) and _is_wanted(counts):
        return Watched(shard, request.group_id, request, counts)
    return None


def decided_due(
    shard: GroupShard,
    now_ms: int,
    decide: Callable[[], Decided | None],
    counts: Rebalances | None,
) -> tuple[Decided | None, Watched | None]:
    """The decision about a deadline that has passed, and the group that it is about."""
    key = shard.deadlines.due(now_ms) if _is_wanted(counts) else None
    if key is None or isinstance(key, OffsetsExpire | DeletionGoesOn):
        return decide(), None
    watch = Watched(shard, key.group, key, counts)
    return decide(), watch


def _is_wanted(counts: Rebalances | None) -> bool:
    return counts is not None or logger.isEnabledFor(logging.INFO)
