"""The fetchers of this node: one for each node that leads partitions which are followed here.

`follow` is told of followers that are new, have another leader, or have ended: a change of the
metadata costs what it changes. A fetcher whose partitions have all gone elsewhere closes its
connection, and waits for others.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.controller.links import Links
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.replication.fetcher import ReplicaFetcher, id_of
from penstock.metadata.image.image import Image
from penstock.model.identity import NodeId
from penstock.model.settings.replication import ReplicationSettings
from penstock.replication.follower import Follower
from penstock.replication.replica_session import PartitionId
from penstock.replication.throttle import ReplicationThrottle
from penstock.world.ports import Clock
from penstock.world.tasks import TaskGroup

if TYPE_CHECKING:  # not loaded by a node that exports no traces
    from penstock.broker.replication.replica_tracing import ReplicaTracing

CONNECT_WAIT_MS_MAX = 10_000


class ReplicaFetchers:
    """See the module. Fetchers belong to `tasks`."""

    def __init__(
        self,
        *,
        links: Links,
        node_id: NodeId,
        broker_epoch: Callable[[], int],
        partitions: Partitions,
        settings: ReplicationSettings,
        throttle: ReplicationThrottle,
        clock: Clock,
        tasks: TaskGroup,
        tracing: "ReplicaTracing | None" = None,
    ) -> None:
        self._links = links
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._partitions = partitions
        self._settings = settings
        self._throttle = throttle
        self._clock = clock
        self._tasks = tasks
        self._tracing = tracing
        self._by_leader: dict[NodeId, ReplicaFetcher] = {}
        self._by_partition: dict[PartitionId, ReplicaFetcher] = {}
        self._epochs: dict[NodeId, int] = {}  # of brokers, as last seen
        self._running: list[asyncio.Task[None]] = []
        self._is_closed = False

    def check(self) -> None:
        for fetcher in self._by_leader.values():
            fetcher.check()
        assert len(self._by_partition) >= sum(map(len, self._by_leader.values()))

    def is_lost(self, node_id: NodeId) -> bool:
        """See `ReplicaFetcher`; False of nodes from which nothing is fetched."""
        fetcher = self._by_leader.get(node_id)
        return fetcher is not None and fetcher.is_lost

    def follow(self, changed: Iterable[Follower]) -> None:
        """Followers that are new, have another leader or leader epoch, or have ended."""
        if self._is_closed:
            return
        touched: dict[NodeId, ReplicaFetcher] = {}
        for follower in changed:
            partition = id_of(follower)
            before = self._by_partition.get(partition)
            leader = None if follower.has_ended else follower.leader
            if before is not None and before.leader != leader:
                before.leave(follower)
                touched[before.leader] = before
            if leader is not None:
                fetcher = self._fetcher(leader)
                fetcher.follow(follower)
                self._by_partition[partition] = touched[leader] = fetcher
            elif before is not None:
                del self._by_partition[partition]
        for fetcher in touched.values():
            fetcher.hurry()

    def brokers_changed(self, nodes: Iterable[NodeId], image: Image) -> None:
        """They may be reachable now, or be other processes, at other addresses."""
        for node_id in nodes:
            broker = image.brokers.get(node_id)
            before = self._epochs.pop(node_id, None)
            if broker is not None:
                self._epochs[node_id] = broker.epoch
            fetcher = self._by_leader.get(node_id)
            if fetcher is None:
                continue
            if before == self._epochs.get(node_id):
                fetcher.hurry()
            else:
                fetcher.reconnect()

    def synced(self, follower: Follower) -> None:
        fetcher = self._by_partition.get(id_of(follower))
        if fetcher is not None:
            fetcher.resume(follower)

    def close(self) -> None:
        """Fetches no more: the node is stopping."""
        self._is_closed = True
        for task in self._running:
            task.cancel()

    def _fetcher(self, leader: NodeId) -> ReplicaFetcher:
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            fetcher = self._by_leader[leader] = ReplicaFetcher(
                leader,
                node_id=self._node_id,
                broker_epoch=self._broker_epoch,
                partitions=self._partitions,
                settings=self._settings,
                throttle=self._throttle,
                connect=partial(self._links.connect, timeout_ms=CONNECT_WAIT_MS_MAX),
                clock=self._clock,
                tasks=self._tasks,
                tracing=self._tracing,
            )
            task = self._tasks.start(fetcher.run(), name=f"fetch from {leader}")
            self._running.append(task)
        return fetcher
