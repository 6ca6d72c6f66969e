"""What a connection passes before its first request: on listeners of TLS; others have none."""

from typing import Protocol

from penstock.security.principal import Principal
from penstock.world.ports import Listener, Stream


class Entrance(Protocol):
    def guarded(self, listener: Listener) -> Listener:
        """The same listener, whose streams have to be entered before use."""

    async def enter(self, stream: Stream) -> Principal:
        """Who has connected, as far as that is known by now. HandshakeFailed for a peer that is
        refused, NetworkError for one that has gone.
        """
