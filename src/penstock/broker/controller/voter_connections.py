"""Whether two processes fetch as one voter: somebody has started a copy of its directory.

One process fetches over one connection at a time, and does not return to one that it has replaced.
A request that was still unread on an older connection may come late, so a few returns say nothing.
"""

from collections import deque
from collections.abc import Hashable

from penstock.model.identity import NodeId

RETURNS_MIN = 3  # to an earlier connection, until two processes are seen
CONNECTIONS_KEPT = 4  # of one voter


class VoterConnections:
    """Of the voters alone, so that it does not grow."""

    def __init__(self) -> None:
        self._latest: dict[NodeId, deque[Hashable]] = {}  # the latest one is the last
        self._returns: dict[NodeId, int] = {}

    def fetched(self, voter: NodeId, connection: Hashable) -> Hashable | None:
        """A voter has fetched. When it becomes clear that there are two of it, once: the connection
        of the other one.
        """
        latest = self._latest.setdefault(voter, deque(maxlen=CONNECTIONS_KEPT))
        if latest and latest[-1] == connection:
            return None
        other = latest[-1] if latest else None
        returned = connection in latest
        if returned:
            latest.remove(connection)
        latest.append(connection)
        if not returned:
            return None
        self._returns[voter] = self._returns.get(voter, 0) + 1
        return other if self._returns[voter] == RETURNS_MIN else None
