"""TCP as a client meets it on a bad day: brokers that cannot be reached, that do not answer, and
replies that are lost with their connection.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from penstock.wire.api import ApiKey
from penstock.world.errors import ConnectionRefused, NetworkError
from penstock.world.ports import Address, Buffer, FileRange
from penstock.world.tcp import TcpNetwork
from penstock.world.tcp_stream import TcpStream


class TroubledNetwork(TcpNetwork):
    """All is well until a test says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False  # no broker can be reached
        self.unreachable: set[str] = set()  # addresses that cannot be
        self.refused = 0
        # Which received bytes: of a connection that has carried requests of these kinds.
        self.loses: Callable[[Collection[ApiKey], bytes], bool] = lambda _, __: False
        self.lost = 0
        self.streams: list[TroubledStream] = []

    @property
    def sent(self) -> Counter[ApiKey]:
        """How many requests have left, by their kind."""
        return sum((stream.sent for stream in self.streams), Counter())

    # The port asks for any Stream, of which TcpNetwork has its own.
    async def connect(self, address: Address) -> "TroubledStream":  # type: ignore[override]
        if self.is_away or str(address) in self.unreachable:
            self.refused += 1
            await asyncio.sleep(0)
            raise ConnectionRefused(f"cannot connect to {address}: Connection refused")
        stream = TroubledStream(self, await super().connect(address))
        self.streams.append(stream)
        return stream

    def go_away(self) -> None:
        """Every connection is cut, and none can be made."""
        self.is_away = True
        for stream in self.streams:
            stream.close()

    def hang(self, *, but: ApiKey) -> None:
        """Nothing is heard any more on the connections there are, but on those that have carried a
        request of this kind.
        """
        for stream in self.streams:
            stream.hangs = but not in stream.sent


class TroubledStream:
    def __init__(self, network: TroubledNetwork, stream: TcpStream) -> None:
        self.peer = stream.peer
        self.sent: Counter[ApiKey] = Counter()
        self.hangs = False
        self._network = network
        self._stream = stream
        self._ended = asyncio.Event()

    async def receive_into(self, view: memoryview) -> int:
        count = await self._stream.receive_into(view)
        if self._network.loses(self.sent, bytes(view[:count])):
            self._network.lost += 1
            self.close()
            raise NetworkError(f"{self.peer}: reset")
        if self.hangs:
            await self._ended.wait()
            raise NetworkError(f"{self.peer}: closed")
        return count

    async def send(self, buffers: Sequence[Buffer], *, more: bool = False) -> None:
        self.sent.update(api_keys(b"".join(buffers)))
        await self._stream.send(buffers, more=more)

    def send_now(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        return buffers

    async def send_file(self, span: FileRange) -> None:
        raise AssertionError("a client has no files")

    def close(self) -> None:
        self._stream.close()
        self._ended.set()


def api_keys(frames: bytes) -> Iterator[ApiKey]:
    """Of whole requests, as they are sent."""
    position = 0
    while position < len(frames):
        size = int.from_bytes(frames[position : position + 4], "big")
        yield ApiKey(int.from_bytes(frames[position + 4 : position + 6], "big"))
        position += 4 + size
