"""The brokers that look after groups or transactional ids: found when first needed, and again when
one has moved.

`ask` sends what concerns one of them to its coordinator. A coordinator that is still loading, has
moved or can't be reached is no answer: it is looked up and asked again after the backoff, until the
deadline. Any other answer is the caller's.
"""

import asyncio
from collections.abc import Callable
from enum import IntEnum
from typing import TypeVar

from penstock.client.network.cluster import Cluster, Lane
from penstock.client.network.errors import (
    ConnectionLost,
    Refused,
    TimedOut,
    Unreachable,
    UnsupportedByBroker,
    error_code,
)
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.wire.api import ApiKey
from penstock.wire.definition import Message
from penstock.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

AnyReply = TypeVar("AnyReply", bound=Message)

NOT_YET = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
LOST = (ConnectionLost, TimedOut, Unreachable)


class CoordinatorKind(IntEnum):
    """What is looked after, by the numbers of the protocol."""

    GROUP = 0
    TRANSACTION = 1


class Coordinators:
    def __init__(self, cluster: Cluster, *, kind: CoordinatorKind = CoordinatorKind.GROUP) -> None:
        self.cluster = cluster
        self.kind = kind
        self._known: dict[str, NodeId] = {}
        self._former: dict[str, NodeId] = {}  # another one than this says who it is now

    async def ask(
        self,
        key: str,
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
                channel = await self.cluster.channel(await self.of(key), lane)
                version = channel.version_for(type(request), at_most=version_max)
                reply = await channel.ask(
                    request, reply_type, timeout_ms=answer_ms_max, version=version
                )
                code = error_code(code_of(reply))
                if code != NOT_YET and code not in MOVED:
                    return reply
                if code in MOVED:
                    self.forget(key)
                error = Refused(code, self.about(key))
            except LOST as lost:
                self.forget(key)
                if clock.monotonic_ms() >= deadline_ms:
                    raise
                error = Refused(ErrorCode.NETWORK_EXCEPTION, self.about(key), str(lost))
            if clock.monotonic_ms() >= deadline_ms:
                raise error
            await asyncio.sleep(rules.backoff_ms / 1000)

    async def ask_once(
        self,
        key: str,
        request: Message,
        reply_type: type[AnyReply],
        *,
        answer_ms_max: int,
        version_min: int = 0,
        version_max: int | None = None,
        lane: Lane = Lane.QUESTIONS,
    ) -> AnyReply:
        """The coordinator's answer, whatever it is; one of LOST when there was none.

        UnsupportedByBroker when the broker has no version as new as `version_min`.
        """
        node = await self.of(key, answer_ms_max=answer_ms_max)
        channel = await self.cluster.channel(node, lane)
        version = channel.version_for(type(request), at_most=version_max)
        if version < version_min:
            raise UnsupportedByBroker(
                f"the broker speaks {ApiKey(request.API_KEY).name} up to version {version};"
                f" needed is {version_min}"
            )
        return await channel.ask(request, reply_type, timeout_ms=answer_ms_max, version=version)

    async def of(self, key: str, *, answer_ms_max: int | None = None) -> NodeId:
        """Who looks after it. Refused when no broker tells one within the time."""
        known = self._known.get(key)
        if known is not None and known in self.cluster.view.brokers:
            return known
        clock, rules = self.cluster.clock, self.cluster.rules
        answer_ms_max = rules.request_ms_max if answer_ms_max is None else answer_ms_max
        deadline_ms = clock.monotonic_ms() + answer_ms_max
        while True:
            node, code, message = await self._find(key)
            if code == ErrorCode.NONE:
                self._known[key] = node
                if node in self.cluster.view.brokers:
                    return node
                await self.cluster.refresh()
                if node in self.cluster.view.brokers:
                    return node
            retriable = code in (ErrorCode.NONE, NOT_YET, *MOVED)
            if not retriable or clock.monotonic_ms() >= deadline_ms:
                raise Refused(code, self.about(key), message)
            # The first question of all makes the broker create the topic that it is kept in.
            await asyncio.sleep(rules.backoff_ms / 1000)

    def forget(self, key: str) -> None:
        """It has moved, or cannot be reached. A broker that was cut off from the others may still
        take itself for the coordinator: others are asked first.
        """
        former = self._known.pop(key, None)
        if former is not None:
            self._former[key] = former

    def about(self, key: str) -> str:
        return f"{'group' if self.kind is CoordinatorKind.GROUP else 'transactional id'} {key}"

    async def _find(self, key: str) -> tuple[NodeId, ErrorCode, str | None]:
        # One question in two forms: up to version 3 one key, later ones many.
        request = FindCoordinatorRequest(key=key, key_type=self.kind, coordinator_keys=[key])
        former = self._former.pop(key, None)
        avoid = () if former is None else (former,)
        reply = await self.cluster.ask_any(request, FindCoordinatorResponse, avoid=avoid)
        for told in reply.coordinators:
            return NodeId(told.node_id), error_code(told.error_code), told.error_message
        return NodeId(reply.node_id), error_code(reply.error_code), reply.error_message
