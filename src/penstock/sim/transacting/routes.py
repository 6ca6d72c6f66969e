"""Where an application finds the coordinators and the leaders that it speaks to."""

from typing import Protocol

from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import Unreachable
from penstock.model.identity import NodeId, TopicPartition

NODE = NodeId(1)


class Routes(Protocol):
    async def to_transactions(self, transactional_id: str) -> NodeId: ...

    async def to_group(self, group: str) -> NodeId: ...

    async def to_leader(self, place: TopicPartition) -> NodeId: ...

    def forget(self) -> None:
        """What is known may be wrong: it is asked for again."""


class OneNode:
    """Everything is on the only node."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def to_transactions(self, transactional_id: str) -> NodeId:
        return await self._node()

    async def to_group(self, group: str) -> NodeId:
        return await self._node()

    async def to_leader(self, place: TopicPartition) -> NodeId:
        return await self._node()

    def forget(self) -> None:
        pass

    async def _node(self) -> NodeId:
        if NODE not in self._cluster.view.brokers:
            await self._cluster.refresh()
        return NODE


class ManyNodes:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stale = True
        self.forget()

    async def to_transactions(self, transactional_id: str) -> NodeId:
        return await self._transactions.of(transactional_id)

    async def to_group(self, group: str) -> NodeId:
        return await self._groups.of(group)

    async def to_leader(self, place: TopicPartition) -> NodeId:
        if self._stale or self._cluster.view.leader_of(place) is None:
            self._stale = False
            await self._cluster.refresh([place.topic])
        leader = self._cluster.view.leader_of(place)
        if leader is None:
            self._stale = True
            raise Unreachable(f"{place} has no leader")
        return leader

    def forget(self) -> None:
        self._stale = True
        self._transactions = Coordinators(self._cluster, kind=CoordinatorKind.TRANSACTION)
        self._groups = Coordinators(self._cluster)
