"""A connection that ends with the bytes that asked for something leaves nothing behind."""

import asyncio
import gc
import warnings
from collections.abc import Awaitable

from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from rig.raw_serving import Answer, request, run, serving, until

UNSERVED = b"\0\0\0\x0a" + b"\x7f\xff" + bytes(8)


def test_what_was_asked_with_the_last_bytes_is_begun_and_cancelled() -> None:
    begun: list[int] = []
    ended: list[int] = []

    async def inner(number: int) -> MetadataResponse:
        begun.append(number)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)
        raise AssertionError("nobody sets it")

    async def outer(answer: Awaitable[MetadataResponse]) -> MetadataResponse:
        return await answer

    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        return outer(inner(context.header.correlation_id))

    async def scenario() -> None:
        async with serving(handle=handle) as served:
            client = await served.connect()
            asked = [request(MetadataRequest(), number) for number in range(3)]
            parts = [bytes(part) for parts in asked for part in parts]  # type: ignore[arg-type]
            await client.send(b"".join(parts) + UNSERVED)
            assert await client.frame() is None
            await until(lambda: not served.server.connections)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run(scenario())
        gc.collect()
    assert [str(one.message) for one in told if "never awaited" in str(one.message)] == []
    assert begun == ended == [0, 1, 2]
