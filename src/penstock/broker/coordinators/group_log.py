"""Logs rebalances with their causes: a group is looked at before and after each decision."""

import logging
from collections.abc import Callable
from itertools import islice

from penstock.groups.decide import Decided
from penstock.groups.rebalance_causes import (
    MAY_REBALANCE,
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


class Watched:
    """One group while a decision is made about it."""

    __slots__ = ("_before", "_group_id", "_shard", "_trigger")

    def __init__(self, shard: GroupShard, group_id: str, trigger: Trigger) -> None:
        self._shard = shard
        self._group_id = group_id
        self._trigger = trigger
        self._before: Noted | None = noted(shard.groups.get(group_id), trigger)

    def log(self) -> None:
        """The decision is applied, or could not be stored."""
        group = self._shard.groups.get(self._group_id)
        for found in islice(causes(self._before, group, self._trigger), CAUSES_TOLD_MAX):
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


def watched(shard: GroupShard, request: object) -> Watched | None:
    """None where nothing is to be logged."""
    if isinstance(request, MAY_REBALANCE) and logger.isEnabledFor(logging.INFO):
        return Watched(shard, request.group_id, request)
    return None


def decided_due(
    shard: GroupShard, now_ms: int, decide: Callable[[], Decided | None]
) -> tuple[Decided | None, Watched | None]:
    """The decision about a deadline that has passed, and the group that it is about."""
    key = shard.deadlines.due(now_ms) if logger.isEnabledFor(logging.INFO) else None
    if key is None or isinstance(key, OffsetsExpire | DeletionGoesOn):
        return decide(), None
    watch = Watched(shard, key.group, key)
    return decide(), watch
