"""The traces of a node: who makes their spans, and the thread that exports them.

    broker/request/request_tracing       spans of the leader  --+
    broker/replication/replica_tracing   spans of a follower  --+--> SpanBuffer --> a thread
                                                                     bounded        span_export

The loop only adds to the buffer and waits for nothing. If the receiver is slow or down, exports
fail, and spans that find no room are dropped; both are counted. Loaded by a broker whose settings
say where traces go (`penstock.tracing.endpoint`); others need neither it nor the library.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import version

from penstock.broker.replication.replica_tracing import ReplicaTracing
from penstock.broker.request.request_tracing import RequestTracing
from penstock.model.events import TRACING_FAILED, TRACING_STARTED
from penstock.model.limit import (
    TRACING_EXPORT_INTERVAL_MS,
    TRACING_FLUSH_MS_MAX,
    TRACING_SPANS_PER_EXPORT_MAX,
)
from penstock.node.config import NodeConfig
from penstock.node.span_export import SpanExport
from penstock.tracing.sampling import Sampling
from penstock.tracing.span import SpanBuffer
from penstock.world.event_log import tell

logger = logging.getLogger(__name__)


class NodeTracing:
    """`open` before the node serves, `close` when it has answered its last request."""

    def __init__(self, config: NodeConfig, *, cluster_id: str) -> None:
        settings = config.settings
        assert settings.penstock_tracing_endpoint is not None
        self._endpoint = settings.penstock_tracing_endpoint
        self._sample = settings.penstock_tracing_sample
        sampling = Sampling(self._sample)
        self.spans = SpanBuffer()
        self.requests = RequestTracing(sampling, self.spans)
        self.replicas = ReplicaTracing(sampling, self.spans, config.node_id)
        self._export = SpanExport(
            self._endpoint,
            node_id=config.node_id,
            cluster_id=cluster_id,
            version=version("penstock"),
        )
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._given_up = threading.Event()
        self._is_failing = False
        self._ended = asyncio.Event()
        # One that hangs in an export does not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def open(self) -> None:
        tell(logger, TRACING_STARTED, endpoint=self._endpoint, sample=self._sample)
        self._thread.start()

    async def close(self) -> None:
        """Exports what waits, within a bound, unless the last export failed."""
        self._stopping.set()
        if self._thread.is_alive() and not self._is_failing:
            with suppress(TimeoutError):
                async with asyncio.timeout(TRACING_FLUSH_MS_MAX / 1000):
                    await self._ended.wait()
        self.abandon()

    def abandon(self) -> None:
        """At once; harmless when done twice."""
        self._stopping.set()
        if not self._given_up.is_set():
            self._given_up.set()
            self._export.close()

    def _run(self) -> None:
        """On its own thread."""
        try:
            self._export_until_stopped()
        finally:
            self._export.ended()
            self._call_loop(self._ended.set)

    def _export_until_stopped(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stopping.wait(TRACING_EXPORT_INTERVAL_MS / 1000)
            while not self._given_up.is_set():
                spans = self.spans.take(TRACING_SPANS_PER_EXPORT_MAX)
                if not spans:
                    break
                self._note(self._export.export(spans), len(spans))

    def _note(self, reason: str | None, count: int) -> None:
        """What became of an export; a failure after a success is logged, on the loop."""
        was_failing, self._is_failing = self._is_failing, reason is not None
        if reason is None:
            self.spans.exported += count
            return
        self.spans.failed += count
        if not was_failing and not self._given_up.is_set():
            self._call_loop(partial(self._tell_failure, reason, count))

    def _tell_failure(self, reason: str, count: int) -> None:
        tell(logger, TRACING_FAILED, endpoint=self._endpoint, spans=count, reason=reason)

    def _call_loop(self, step: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(step)
