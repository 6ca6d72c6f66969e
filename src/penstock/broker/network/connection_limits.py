"""How many connections a broker, a listener and an address may have; who gives way to a broker.

    max.connections                    of all listeners together, and of each one by itself
    listener.name.NAME.max.connections of one listener, instead of the one above
    max.connections.per.ip             of one address, whichever listeners it uses

As in Apache Kafka the listener of brokers is protected where there are others: a connection there
is accepted although all listeners together are full, and the connection of another listener that
has been idle for longest is closed instead. Otherwise clients could shut out the other brokers.

Of one server. Controllers have a server of their own, and so these limits for themselves.

Invariants:
1. The counts by listener and by address each add up to the number of connections.
2. What gives way is still counted, until it is forgotten.
"""

from collections import Counter
from collections.abc import Collection
from heapq import nsmallest

from penstock.broker.network.connection import Connection
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.of_listener import MAX_CONNECTIONS, listener_prefix


class ConnectionLimits:
    """`brokers` is the listener by which other brokers come; None where none do."""

    def __init__(
        self, listeners: Collection[str], settings: BrokerSettings, *, brokers: str | None
    ) -> None:
        self._protected = brokers if len(listeners) > 1 else None
        own = {name: settings.max_connections_of(name) for name in listeners}
        self._of_listener = {name: most for name, most in own.items() if most is not None}
        self.connections: dict[Connection, str] = {}  # their listeners, in the order they came
        self._per_listener: Counter[str] = Counter()
        self._per_host: Counter[str] = Counter()
        self._leaving: dict[Connection, None] = {}

    def check(self) -> None:
        assert sum(self._per_listener.values()) == len(self.connections)  # invariant 1
        assert sum(self._per_host.values()) == len(self.connections)  # invariant 1
        assert self._leaving.keys() <= self.connections.keys()  # invariant 2

    def refusal(self, host: str, listener: str, settings: BrokerSettings) -> str | None:
        """Why no more connection of this kind is accepted; None: it is."""
        most = settings.max_connections
        own = self._of_listener.get(listener)
        if self._per_listener[listener] >= (most if own is None else own):
            name = MAX_CONNECTIONS if own is None else listener_prefix(listener) + MAX_CONNECTIONS
            return f"{name}={most if own is None else own}"
        if listener != self._protected and len(self.connections) >= most:
            return f"{MAX_CONNECTIONS}={most}"
        if self._per_host[host] >= settings.max_connections_per_ip:
            return f"max.connections.per.ip={settings.max_connections_per_ip}"
        return None

    def add(self, connection: Connection, listener: str) -> None:
        self.connections[connection] = listener
        self._per_listener[listener] += 1
        self._per_host[connection.stream.peer.host] += 1

    def forget(self, connection: Connection) -> None:
        listener = self.connections.pop(connection)
        self._leaving.pop(connection, None)
        for counts, key in (
            (self._per_listener, listener),
            (self._per_host, connection.stream.peer.host),
        ):
            counts[key] -= 1
            if counts[key] == 0:
                del counts[key]

    def take_excess(self, settings: BrokerSettings) -> list[Connection]:
        """Connections to close, since brokers need their places: those idle for longest first.

        Each one is named once. Costs nothing unless there are too many.
        """
        count = len(self.connections) - len(self._leaving) - settings.max_connections
        if count <= 0 or self._protected is None:
            return []
        others = (
            one
            for one, listener in self.connections.items()
            if listener != self._protected and one not in self._leaving
        )
        excess = nsmallest(count, others, key=lambda one: one.active_ms)
        self._leaving.update(dict.fromkeys(excess))
        return excess
