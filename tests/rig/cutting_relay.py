"""A relay before a node, which closes the connection instead of passing on a request of some kind.

The node has to advertise the relay's address; else clients that know the cluster pass it by.
"""

import asyncio
import contextlib
import threading
from concurrent.futures import Future

HOST = "127.0.0.1"


class CuttingRelay:
    """Runs in a thread of its own while it is entered. The first `cuts` requests with the key of an
    API are cut off; all others pass.
    """

    def __init__(self, *, port: int, to: str, api_key: int, cuts: int) -> None:
        self.address = f"{HOST}:{port}"
        self.cuts_left = cuts
        self._port = port
        self._to = to
        self._api_key = api_key
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay")

    def __enter__(self) -> "CuttingRelay":
        self._thread.start()
        serving: Future[asyncio.Server] = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._relay, HOST, self._port), self._loop
        )
        self._server = serving.result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _relay(self, client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        host, _, port = self._to.rpartition(":")
        node, request = await asyncio.open_connection(host, int(port))
        back = asyncio.ensure_future(_copy(node, answer))
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await client.readexactly(4)
                frame = await client.readexactly(int.from_bytes(head, "big"))
                if self.cuts_left and int.from_bytes(frame[:2], "big") == self._api_key:
                    self.cuts_left -= 1
                    break
                request.write(head + frame)
                await request.drain()
        back.cancel()
        request.close()
        answer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()
