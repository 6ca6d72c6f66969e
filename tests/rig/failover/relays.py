"""Relays between nodes that hold back what they are told to lose: for where no namespaces are.

Nodes reach each other through one relay for each listener of a node. Who has connected is known by
the process that holds the other end. What is lost is not read any more, so that connections stand
still as behind a cable that is pulled; they go on when it is healed, as TCP does when it sends
again. Two things differ from a network: connecting succeeds, and nothing comes. Clients are not
behind relays, and cannot be cut off.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping

import psutil

from rig.served_cluster import NodeProcess

HOST = "127.0.0.1"
CHUNK_BYTES = 64 * 1024
WAIT_SECONDS_MAX = 20
Pair = tuple[int, int]  # source and target


class Relays:
    """On a thread of its own until `close`."""

    def __init__(self) -> None:
        self.nodes: Mapping[int, NodeProcess] = {}  # set once they are made
        self._cut: set[Pair] = set()
        self._loop = asyncio.new_event_loop()
        self._healed = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays")
        self._thread.start()

    def in_front(self, target: int, address: str) -> str:
        """The address of a relay to one of a node."""
        host, port = address.rsplit(":", 1)

        async def listen() -> str:
            server = await asyncio.start_server(
                lambda reader, writer: self._accepted(target, (host, int(port)), reader, writer),
                HOST,
                0,
            )
            self._servers.append(server)
            return f"{HOST}:{server.sockets[0].getsockname()[1]}"

        return asyncio.run_coroutine_threadsafe(listen(), self._loop).result(WAIT_SECONDS_MAX)

    def cut(self, source: int, target: int) -> None:
        """What one sends to the other is held back from now on; the other way is as it was."""
        self._now(lambda: self._cut.add((source, target)))

    def heal(self) -> None:
        def mend() -> None:
            self._cut.clear()
            self._healed.set()
            self._healed = asyncio.Event()

        self._now(mend)

    def close(self) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(WAIT_SECONDS_MAX)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS_MAX)
        self._loop.close()

    def _now(self, change: Callable[[], object]) -> None:
        """On the loop, and done when it returns."""

        async def do() -> None:
            change()

        asyncio.run_coroutine_threadsafe(do(), self._loop).result(WAIT_SECONDS_MAX)

    async def _accepted(
        self,
        target: int,
        address: tuple[str, int],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            source = self._holder(writer.get_extra_info("peername")[1])
            await self._while_cut((source, target))
            onward_reader, onward_writer = await asyncio.open_connection(*address)
            try:
                await asyncio.gather(
                    self._pump((source, target), reader, onward_writer),
                    self._pump((target, source), onward_reader, writer),
                )
            finally:
                onward_writer.close()
        except OSError:
            pass  # One side has gone; so shall the other.
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _pump(
        self, pair: Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            data = await reader.read(CHUNK_BYTES)
            await self._while_cut(pair)
            if not data:
                # Both directions end with one: requests without replies are of no use.
                raise ConnectionError("closed")
            writer.write(data)
            await writer.drain()

    async def _while_cut(self, pair: Pair) -> None:
        while pair in self._cut:
            await self._healed.wait()

    def _holder(self, port: int) -> int:
        """The node whose process has connected from this port; -1 if it is none."""
        for number, node in self.nodes.items():
            if node.running:
                try:
                    held = psutil.Process(node.pid).net_connections("tcp")
                except psutil.Error:
                    continue
                if any(one.laddr and one.laddr.port == port for one in held):
                    return number
        return -1
