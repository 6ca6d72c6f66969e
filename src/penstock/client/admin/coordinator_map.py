"""Which broker coordinates each of many transactional ids, found with one request for all of them.

What was found may be handed on (`known`) and used by a later connection: a broker that no longer
coordinates an id says so, and then it is looked up again. `Coordinators` does the same for one id
at a time.
"""

from collections.abc import Iterable, Sequence

from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import Refused, error_code
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

MANY_KEYS_VERSION = 4  # of FindCoordinator (KIP-699)
KEYS_MAX = 1_000  # in one request


class CoordinatorMap:
    def __init__(self, cluster: Cluster, known: dict[str, NodeId] | None = None) -> None:
        self.cluster = cluster
        self.known = {} if known is None else known
        self._former: set[NodeId] = set()  # others than these say who it is now

    async def find(self, transactional_ids: Iterable[str]) -> dict[str, NodeId | ErrorCode]:
        """The coordinator of each id, or why there is none. Every question is asked once."""
        ids = list(transactional_ids)
        brokers = self.cluster.view.brokers
        unknown = [one for one in ids if self.known.get(one) not in brokers]
        errors: dict[str, ErrorCode] = {}
        for start in range(0, len(unknown), KEYS_MAX):
            errors |= await self._ask(unknown[start : start + KEYS_MAX])
        if unknown:
            self._former.clear()
        if any(self.known.get(one) not in self.cluster.view.brokers for one in unknown):
            await self.cluster.refresh()
        found: dict[str, NodeId | ErrorCode] = {}
        for one in ids:
            node = self.known.get(one)
            if one in errors:
                found[one] = errors[one]
            elif node is None or node not in self.cluster.view.brokers:
                found[one] = ErrorCode.COORDINATOR_NOT_AVAILABLE
            else:
                found[one] = node
        return found

    def forget(self, transactional_id: str) -> None:
        """It has moved, or cannot be reached. A broker that was cut off from the others may still
        take itself for the coordinator: others are asked first.
        """
        former = self.known.pop(transactional_id, None)
        if former is not None:
            self._former.add(former)

    async def _ask(self, keys: Sequence[str]) -> dict[str, ErrorCode]:
        """Notes whom the answers name; the errors that came instead."""
        channel = await self.cluster.any_channel(avoid=self._former)
        if channel.version_for(FindCoordinatorRequest) < MANY_KEYS_VERSION:
            return await self._ask_one_by_one(keys)
        request = FindCoordinatorRequest(
            key_type=CoordinatorKind.TRANSACTION, coordinator_keys=list(keys)
        )
        wait_ms = self.cluster.rules.request_ms_max
        reply = await channel.ask(request, FindCoordinatorResponse, timeout_ms=wait_ms)
        errors: dict[str, ErrorCode] = {}
        for told in reply.coordinators:
            code = error_code(told.error_code)
            if code == ErrorCode.NONE:
                self.known[told.key] = NodeId(told.node_id)
            else:
                errors[told.key] = code
        return errors

    async def _ask_one_by_one(self, keys: Sequence[str]) -> dict[str, ErrorCode]:
        """Of a broker that takes one key in each request."""
        coordinators = Coordinators(self.cluster, kind=CoordinatorKind.TRANSACTION)
        errors: dict[str, ErrorCode] = {}
        for key in keys:
            try:
                self.known[key] = await coordinators.of(key)
            except Refused as refused:
                errors[key] = refused.code
        return errors
