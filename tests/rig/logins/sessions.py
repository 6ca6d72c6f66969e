"""The sessions of a node's clients that end, as the node sees them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from penstock.broker.network.reauthentication import Reauthentication
from penstock.node.build import OpenNode
from rig.running_node import RunningNode

LOOK_SECONDS = 0.05


class Sessions:
    """What was seen up to now; `watched_sessions` goes on looking."""

    def __init__(self, node: RunningNode) -> None:
        self.renewals = 0  # by a log-in on the connection of the session
        self._node = node
        self._began_ms: dict[Reauthentication, int] = {}  # each belongs to one connection

    @property
    def connection_count(self) -> int:
        """How many connections have logged in."""
        return len(self._began_ms)

    def look(self) -> None:
        for session, began_ms in self._node.run(self._open_sessions()).items():
            self.renewals += self._began_ms.get(session, began_ms) != began_ms
            self._began_ms[session] = began_ms

    async def _open_sessions(self) -> dict[Reauthentication, int]:
        opened = cast(OpenNode, self._node.node._running)
        assert opened.broker is not None
        identities = [connection.identity for connection in opened.broker.server.connections]
        return {
            one.session: one.session._began_ms
            for one in identities
            if isinstance(one.session, Reauthentication)
        }


@contextmanager
def watched_sessions(node: RunningNode) -> Iterator[Sessions]:
    """From a thread, since clients block."""
    sessions, ended = Sessions(node), threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK_SECONDS):
            sessions.look()

    thread = threading.Thread(target=watch, name="sessions")
    thread.start()
    try:
        yield sessions
    finally:
        ended.set()
        thread.join()
