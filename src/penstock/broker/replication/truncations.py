"""Truncations of followed logs that take many steps: a step each, in turn, until they are done.

A log that has to be searched for the place to cut at, or read again for the state of its producers,
may take seconds. Its partition is left out of the session meanwhile, and the others go on.
"""

import asyncio
import logging
from collections.abc import Callable

from penstock.log.errors import CorruptData
from penstock.model.events import REPLICA_TRUNCATED, TRUNCATED_BELOW_WATERMARK
from penstock.model.identity import NodeId
from penstock.replication.follower import Follower, Taken
from penstock.replication.replica_session import PartitionId
from penstock.world.errors import DiskError
from penstock.world.event_log import tell
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

Ended = Callable[[PartitionId, Follower, Taken | CorruptData | DiskError], None]


class Truncations:
    """`ended` is called with what a truncation has done, or why it failed."""

    def __init__(self, leader: NodeId, *, tasks: TaskGroup, ended: Ended) -> None:
        self._leader = leader
        self._tasks = tasks
        self._ended = ended
        self._cutting: dict[PartitionId, Follower] = {}
        self._task: asyncio.Task[None] | None = None

    def begin(self, partition: PartitionId, follower: Follower) -> None:
        self._cutting[partition] = follower
        if self._task is None or self._task.done():
            self._task = self._tasks.start(self._cut_all(), name=f"cut as {self._leader} has it")

    def forget(self, partition: PartitionId) -> None:
        """It is not to be cut any more: its leader, or its leader epoch, is another one."""
        self._cutting.pop(partition, None)

    async def _cut_all(self) -> None:
        while self._cutting:
            for partition, follower in tuple(self._cutting.items()):
                if self._cutting.get(partition) is follower:
                    self._cut_further(partition, follower)
                await asyncio.sleep(0)

    def _cut_further(self, partition: PartitionId, follower: Follower) -> None:
        outcome: Taken | CorruptData | DiskError
        try:
            outcome = follower.cut_further()
        except (CorruptData, DiskError) as error:
            outcome = error
        if outcome is not Taken.CUTTING:
            del self._cutting[partition]
            self._ended(partition, follower, outcome)


def log_truncated(follower: Follower, leader: NodeId) -> None:
    below = follower.cut_below_watermark
    if below is None:
        tell(
            logger,
            REPLICA_TRUNCATED,
            partition=str(follower.name),
            leader=leader,
            leader_epoch=follower.leader_epoch,
            end_offset=follower.log.end_offset,
        )
    else:
        tell(
            logger,
            TRUNCATED_BELOW_WATERMARK,
            partition=str(follower.name),
            leader=leader,
            leader_epoch=follower.leader_epoch,
            end_offset=follower.log.end_offset,
            high_watermark=below,
            reason="unclean_election",
        )
