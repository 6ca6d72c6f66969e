"""A relay before a node that passes on requests of one kind twice, and only the second reply.

So a request looks that was repeated on its way, since its first reply was lost.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

HOST = "127.0.0.1"


@dataclass(slots=True)
class RepeatingRelay:
    address: str
    repeated: int = 0


@asynccontextmanager
async def repeating_relay(to: str, *, api_key: int) -> AsyncIterator[RepeatingRelay]:
    relay = RepeatingRelay(address="")

    async def pass_on(client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        host, _, port = to.rpartition(":")
        node, request = await asyncio.open_connection(host, int(port))
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                asked = await _frame(client)
                request.write(asked)
                reply = await _frame(node)
                if int.from_bytes(asked[4:6], "big") == api_key:
                    relay.repeated += 1
                    request.write(asked)
                    reply = await _frame(node)
                answer.write(reply)
        request.close()
        answer.close()

    server = await asyncio.start_server(pass_on, HOST, 0)
    relay.address = f"{HOST}:{server.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        server.close()


async def _frame(source: asyncio.StreamReader) -> bytes:
    head = await source.readexactly(4)
    return head + await source.readexactly(int.from_bytes(head, "big"))
