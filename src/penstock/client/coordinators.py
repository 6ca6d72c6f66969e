"""The brokers that look after groups: found when first needed, and again when one has moved.

`ask` sends what concerns one group to its coordinator. A coordinator that is still loading, has
moved or can't be reached is no answer: it is looked up and asked again after the backoff, until the
deadline. Any other answer is the caller's.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from penstock.client.cluster import Cluster, Lane
from penstock.client.trouble import ConnectionLost, Refused, TimedOut, Unreachable, error_code
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.wire.definition import Message
from penstock.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

AnyReply = TypeVar("AnyReply", bound=Message)

GROUP_KEY = 0
NOT_YET = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
LOST = (ConnectionLost, TimedOut, Unreachable)


class Coordinators:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._known: dict[str, NodeId] = {}

    async def ask(
        self,
        group: str,
        request: Message,
        reply_type: type[AnyReply],
        *,
        code_of: Callable[[AnyReply], int],
        version_max: int | None = None,
        lane: Lane = Lane.QUESTIONS,
        answer_ms_max: int | None = None,
    ) -> AnyReply:
        """The coordinator's answer. `code_of` tells the error, if any, that the whole answer is."""
        clock, rules = self.cluster.clock, self.cluster.rules
        answer_ms_max = rules.request_ms_max if answer_ms_max is None else answer_ms_max
        deadline_ms = clock.monotonic_ms() + answer_ms_max
        while True:
            try:
                channel = await self.cluster.channel(await self.of(group), lane)
                version = channel.version_for(type(request), at_most=version_max)
                reply = await channel.ask(
                    request, reply_type, timeout_ms=answer_ms_max, version=version
                )
                code = error_code(code_of(reply))
                if code != NOT_YET and code not in MOVED:
                    return reply
                if code in MOVED:
                    self.forget(group)
                trouble = Refused(code, f"group {group}")
            except LOST as lost:
                self.forget(group)
                if clock.monotonic_ms() >= deadline_ms:
                    raise
                trouble = Refused(ErrorCode.NETWORK_EXCEPTION, f"group {group}", str(lost))
            if clock.monotonic_ms() >= deadline_ms:
                raise trouble
            await asyncio.sleep(rules.backoff_ms / 1000)

    async def of(self, group: str) -> NodeId:
        """The coordinator of a group. Refused when no broker tells one within the time."""
        known = self._known.get(group)
        if known is not None and known in self.cluster.view.brokers:
            return known
        clock, rules = self.cluster.clock, self.cluster.rules
        deadline_ms = clock.monotonic_ms() + rules.request_ms_max
        while True:
            node, code, message = await self._find(group)
            if code == ErrorCode.NONE:
                self._known[group] = node
                if node in self.cluster.view.brokers:
                    return node
                await self.cluster.refresh()
                if node in self.cluster.view.brokers:
                    return node
            retriable = code in (ErrorCode.NONE, NOT_YET, *MOVED)
            if not retriable or clock.monotonic_ms() >= deadline_ms:
                raise Refused(code, f"group {group}", message)
            # The first question of all makes the broker create the topic of offsets.
            await asyncio.sleep(rules.backoff_ms / 1000)

    def forget(self, group: str) -> None:
        self._known.pop(group, None)

    async def _find(self, group: str) -> tuple[NodeId, ErrorCode, str | None]:
        # One question in two forms: up to version 3 one key, later ones many.
        request = FindCoordinatorRequest(key=group, key_type=GROUP_KEY, coordinator_keys=[group])
        reply = await self.cluster.ask_any(request, FindCoordinatorResponse)
        for told in reply.coordinators:
            return NodeId(told.node_id), error_code(told.error_code), told.error_message
        return NodeId(reply.node_id), error_code(reply.error_code), reply.error_message
