"""Replication as a broker of a cluster runs it: its fetchers, and the changes of its in-sync sets.

A node that is a cluster of its own does not import this (see `node/connections`).
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.controller.links import Links
from penstock.broker.partitions.partitions import Applied, Partitions
from penstock.broker.replication.fetchers import ReplicaFetchers
from penstock.broker.replication.in_sync_changes import InSyncChanges
from penstock.metadata.image.image import Delta, Image
from penstock.model.events import THROTTLED
from penstock.model.identity import NodeId
from penstock.model.settings.replication import ReplicationSettings
from penstock.replication.throttle import ReplicationThrottle
from penstock.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from penstock.world.event_log import tell
from penstock.world.ports import Clock
from penstock.world.tasks import TaskGroup

if TYPE_CHECKING:  # not loaded by a node that exports no traces
    from penstock.broker.replication.replica_tracing import ReplicaTracing

logger = logging.getLogger(__name__)

CHANGE_WAIT_MS_MAX = 5_000


class Replicating:
    """From its making on until `close`. Its tasks belong to `tasks`. `broker_epoch` is the one that
    this broker was registered with.
    """

    def __init__(
        self,
        *,
        links: Links,
        controller: ControllerLink,
        node_id: NodeId,
        broker_epoch: Callable[[], int],
        image: Callable[[], Image],
        partitions: Partitions,
        settings: ReplicationSettings,
        clock: Clock,
        tasks: TaskGroup,
        tracing: "ReplicaTracing | None" = None,
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._tasks = tasks
        self.leader_throttle = ReplicationThrottle()  # of what others fetch here
        self._follower_throttle = ReplicationThrottle()
        self._fetchers = ReplicaFetchers(
            links=links,
            node_id=node_id,
            broker_epoch=broker_epoch,
            partitions=partitions,
            settings=settings,
            throttle=self._follower_throttle,
            clock=clock,
            tasks=tasks,
            tracing=tracing,
        )
        partitions.follower_synced = self._fetchers.synced
        self.in_sync_changes = InSyncChanges(
            ask=self._alter_partitions,
            node_id=node_id,
            broker_epoch=broker_epoch,
            image=image,
            partitions=partitions,
            settings=settings,
            clock=clock,
        )

    def check(self) -> None:
        self._fetchers.check()

    def is_lost(self, node_id: NodeId) -> bool:
        """Whether the process of another node has probably ended, as far as can be seen here."""
        return self._fetchers.is_lost(node_id)

    def start(self) -> None:
        self._tasks.start(self.in_sync_changes.run(), name="in-sync sets")

    def applied(self, delta: Delta, image: Image, applied: Applied) -> None:
        """A change of the metadata has taken effect here."""
        self._fetchers.follow(applied.followed)
        self._fetchers.brokers_changed(delta.brokers_changed, image)
        self.in_sync_changes.led(applied.led)
        if delta.brokers_changed:
            self.in_sync_changes.brokers_changed()

    def limit(self, settings: ReplicationSettings) -> None:
        """The rates as they are in effect now."""
        now_ms = self._clock.monotonic_ms()
        rates = (
            ("leader", self.leader_throttle, settings.leader_replication_throttled_rate),
            ("follower", self._follower_throttle, settings.follower_replication_throttled_rate),
        )
        for role, throttle, rate_bytes in rates:
            if rate_bytes != throttle.rate_bytes:
                tell(logger, THROTTLED, role=role, rate_bytes=rate_bytes)
            throttle.limit(rate_bytes, now_ms=now_ms)

    def close(self) -> None:
        """Fetches no more: the node is stopping."""
        self._fetchers.close()

    async def _alter_partitions(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return await self._controller.ask(request, wait_ms_max=CHANGE_WAIT_MS_MAX)
