"""GET /metrics: the listener that Prometheus asks. What of it is HTTP is in `metrics/http`.

Everything has a bound: connections, the bytes of a request, the time until it is complete, and the
time to read the answer. Start reading at `MetricsEndpoint`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from penstock.broker.metrics.exposition import Page
from penstock.metrics.http import (
    FAILED,
    TOO_MANY,
    TOO_SLOW,
    Refusal,
    Request,
    answer,
    read_request,
    refusal,
)
from penstock.model.limit import (
    METRICS_ANSWER_MS_MAX,
    METRICS_CONNECTIONS_MAX,
    METRICS_REQUEST_BYTES_MAX,
    METRICS_REQUEST_MS_MAX,
)
from penstock.world.errors import NetworkError
from penstock.world.ports import Address, Listener, Stream
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

LINGER_MS = 1_000  # after a refusal: closed at once, a connection may lose what was sent
LINGER_BYTES_MAX = 64 * 1024


class MetricsEndpoint:
    """`page` makes the text for what a client accepts. Connections are tasks of the group."""

    def __init__(
        self,
        listener: Listener,
        group: TaskGroup,
        page: Callable[[str], Awaitable[Page]],
    ) -> None:
        self._listener = listener
        self._group = group
        self._page = page
        self._streams: dict[Stream, None] = {}

    @property
    def address(self) -> Address:
        return self._listener.address

    def open(self) -> None:
        self._listener.listen(self._accept)
        logger.info("metrics address=%s", self.address)

    def close(self) -> None:
        """Takes nobody more, and ends every conversation."""
        self._listener.close()
        for stream in list(self._streams):
            stream.close()

    def _accept(self, stream: Stream) -> None:
        is_full = len(self._streams) >= METRICS_CONNECTIONS_MAX
        self._streams[stream] = None
        self._group.start(self._converse(stream, is_full=is_full), name=f"metrics {stream.peer}")

    async def _converse(self, stream: Stream, *, is_full: bool) -> None:
        try:
            if is_full:
                stream.send_now([refusal(TOO_MANY)])
            else:
                await self._serve(stream)
        except (NetworkError, TimeoutError):
            pass  # the client has gone, or does not read: there is nobody to tell
        finally:
            stream.close()
            del self._streams[stream]

    async def _serve(self, stream: Stream) -> None:
        try:
            async with asyncio.timeout(METRICS_REQUEST_MS_MAX / 1000):
                asked = await _receive(stream)
        except TimeoutError:
            asked = TOO_SLOW
        if asked is None:
            return
        async with asyncio.timeout(METRICS_ANSWER_MS_MAX / 1000):
            if isinstance(asked, Request):
                await stream.send([await self._answer(asked)])
                return
            await stream.send([refusal(asked)])
        async with asyncio.timeout(LINGER_MS / 1000):
            await _read_rest(stream)

    async def _answer(self, asked: Request) -> bytes:
        """Whatever goes wrong here is told, and ends no node: nobody's records depend on it."""
        try:
            page = await self._page(asked.accept)
        except Exception:
            logger.exception("metrics could not be gathered")
            return refusal(FAILED)
        return answer(page.text, page.content_type, wants_body=asked.wants_body)


async def _receive(stream: Stream) -> Request | Refusal | None:
    """None when the client closes before it has asked."""
    buffer = bytearray(METRICS_REQUEST_BYTES_MAX)
    filled = 0
    while True:
        with memoryview(buffer) as view:
            count = await stream.receive_into(view[filled:])
        filled += count
        asked = read_request(bytes(buffer[:filled]))
        if asked is not None or count == 0:
            return asked


async def _read_rest(stream: Stream) -> None:
    buffer = memoryview(bytearray(4096))
    left = LINGER_BYTES_MAX
    while left > 0 and (count := await stream.receive_into(buffer)) > 0:
        left -= count
