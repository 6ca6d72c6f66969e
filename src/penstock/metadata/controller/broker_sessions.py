"""Which brokers the active controller takes for alive, and when it may fence one.

A broker has a session from its last contact, for `broker.session.timeout.ms`. Three ways end it:

- the session runs out (`expired`): the broker is silent or cut off;
- its connection broke, or never was, and its endpoint refuses a new one (`refused`): the process is
  dead, and nobody has to wait for the session. When more than half of the brokers refuse, the cause
  is rather on this side; then the sessions decide;
- its connection seems to be there, as it does when a machine has lost power, but another process
  on that machine has its id, and wants to listen where nobody does (`replaced`).

One process is fenced before its session has expired once: if it is alive after all and is unfenced
again, only its session ends it. Sessions are volatile: a new active controller begins with a whole
one for each unfenced broker, or it would fence all of them at once. Time in which the controller's
process stood still does not count (`not_listening`): what brokers sent meanwhile is still to be
read. The controller's own broker is in the same process: once it was heard from it does not expire.

A broker that has not spoken to this controller for half a session, or not at all, or whose
connection is gone, is silent: it may have ended, and nobody leaves an in-sync set to it
(`fencing`). A broker that has ended keeps its session until it is fenced.

Times are monotonic and are passed in; the shell reports contacts, lost connections and refusals,
and carries out the fencing (`fencing`).
"""

from collections.abc import Hashable, Iterable
from dataclasses import field
from enum import Enum

from penstock.metadata.image.broker import BrokerImage
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass


class GoneBy(Enum):
    """How the controller knows that a broker process has ended, or is cut off."""

    SESSION = "session_expired"
    CONNECTION = "connection_refused"
    RESTART = "restarted"


@dataclass(slots=True, kw_only=True)
class Session:
    """The session of one broker process."""

    epoch: int
    heard_ms: int  # the session lasts from then on
    # When the broker spoke to this controller, and whether that connection is still there.
    spoke_ms: int | None = None
    is_connected: bool = False
    ended_by: GoneBy | None = None  # the process, which is to be fenced
    connection: Hashable = None  # of the latest contact; None in the same process
    metadata_offset: int = -1  # of the last record that the broker has applied, as it says
    # While it shuts down: the last record about that, and who was heard from since it began.
    shutdown_offset: int | None = None
    heard_since: set[NodeId] = field(default_factory=set)

    @property
    def is_heard(self) -> bool:
        return self.spoke_ms is not None


class BrokerSessions:
    """Decisions read it; only the active controller's shell changes it.

    Invariants:
    1. `_by_connection` holds exactly the connections of sessions that are connected from another
       process.
    2. A broker that refused within the last session's time has not been heard from since.
    """

    def __init__(self, own_id: NodeId, timeout_ms: int, *, heartbeat_interval_ms: int = 0) -> None:
        assert timeout_ms > 0, timeout_ms
        self._own_id = own_id
        self._timeout_ms = timeout_ms
        # Brokers that are well are never silent for so long.
        self._silence_ms = min(timeout_ms, max(timeout_ms, 3 * heartbeat_interval_ms) // 2)
        self._sessions: dict[NodeId, Session] = {}
        self._by_connection: dict[Hashable, NodeId] = {}
        self._refused_ms: dict[NodeId, int] = {}  # when a broker last refused
        self._fenced_by_refusal: dict[NodeId, int] = {}  # the epoch in which that happened

    # Queries

    def is_alive(self, node_id: NodeId, now_ms: int) -> bool:
        """Whether the registered process may still run: its session lasts. Of the own broker's
        processes only this one runs.
        """
        session = self._sessions.get(node_id)
        if session is None or session.ended_by is not None:
            return False
        if node_id == self._own_id:
            return session.is_heard
        return now_ms < self._deadline_ms(session)

    def is_silent(self, node_id: NodeId, now_ms: int) -> bool:
        """Whether the registered process may have ended, although its session lasts."""
        session = self._sessions.get(node_id)
        if session is None:
            return False
        if session.spoke_ms is None or session.ended_by is not None:
            return True
        if node_id == self._own_id:
            return False
        return not session.is_connected or session.spoke_ms + self._silence_ms <= now_ms

    def is_connected(self, node_id: NodeId) -> bool:
        """Whether the connection is there over which the broker was last heard from."""
        session = self._sessions.get(node_id)
        return session is not None and session.is_connected

    def others_live(self, node_id: NodeId, others: Iterable[NodeId], now_ms: int) -> bool:
        """Whether these were heard from since the broker began to shut down, and are not silent."""
        session = self._sessions.get(node_id)
        if session is None or session.shutdown_offset is None:
            return False
        return all(
            other == node_id
            or other not in self._sessions
            or (
                (other == self._own_id or other in session.heard_since)
                and not self.is_silent(other, now_ms)
            )
            for other in others
        )

    def others_know(self, node_id: NodeId, others: Iterable[NodeId]) -> bool:
        """Whether these have applied the last record about the broker that shuts down. The broker
        in the process of the controller has, since it is committed.
        """
        session = self._sessions.get(node_id)
        if session is None or session.shutdown_offset is None:
            return False
        for other in others:
            known = self._sessions.get(other)
            if other in (node_id, self._own_id) or known is None:
                continue
            if known.metadata_offset < session.shutdown_offset:
                return False
        return True

    def connection_of(self, node_id: NodeId) -> Hashable:
        """The connection over which the broker was last heard from; None when it is gone."""
        session = self._sessions.get(node_id)
        return None if session is None else session.connection

    def unheard(self) -> tuple[NodeId, ...]:
        """The brokers of other processes that have not spoken to this controller yet."""
        return tuple(
            sorted(
                node_id
                for node_id, session in self._sessions.items()
                if not session.is_heard and node_id != self._own_id
            )
        )

    def expired(self, now_ms: int) -> tuple[NodeId, ...]:
        """The brokers whose sessions have run out."""
        return tuple(
            sorted(
                node_id
                for node_id, session in self._sessions.items()
                if self._may_expire(node_id, session) and self._deadline_ms(session) <= now_ms
            )
        )

    def gone(self, now_ms: int) -> dict[NodeId, GoneBy]:
        """The brokers that are to be fenced: their sessions have run out, or they have ended."""
        gone = dict.fromkeys(self.expired(now_ms), GoneBy.SESSION)
        for node_id, session in self._sessions.items():
            if session.ended_by is not None:
                gone[node_id] = session.ended_by
        return gone

    def disconnected(self) -> tuple[NodeId, ...]:
        """The brokers of other processes that are not connected, and may have ended."""
        return tuple(
            sorted(
                node_id
                for node_id, session in self._sessions.items()
                if not session.is_connected and session.ended_by is None and node_id != self._own_id
            )
        )

    def next_deadline_ms(self) -> int | None:
        """When the next session runs out, if nothing is heard until then."""
        deadlines = (
            self._deadline_ms(session)
            for node_id, session in self._sessions.items()
            if self._may_expire(node_id, session)
        )
        return min(deadlines, default=None)

    def check(self) -> None:
        """The class's invariants."""
        connections = {
            session.connection: node_id
            for node_id, session in self._sessions.items()
            if session.is_connected and session.connection is not None
        }
        assert connections == self._by_connection  # 1
        for node_id, refused_ms in self._refused_ms.items():  # 2
            session = self._sessions.get(node_id)
            assert session is None or not session.is_connected, node_id
            assert session is None or session.heard_ms <= refused_ms, node_id

    # Commands

    def begin(self, brokers: Iterable[BrokerImage], now_ms: int) -> None:
        """Once, when this controller was elected: each unfenced broker gets a whole session."""
        assert not self._sessions, "each election has sessions of its own"
        for broker in brokers:
            if not broker.fenced:
                self._sessions[broker.node_id] = Session(epoch=broker.epoch, heard_ms=now_ms)

    def not_listening(self, pause_ms: int, now_ms: int) -> None:
        """This process stood still for so long until now: all sessions last longer by that."""
        assert pause_ms >= 0, pause_ms
        for session in self._sessions.values():
            session.heard_ms = min(now_ms, session.heard_ms + pause_ms)
        for node_id, refused_ms in self._refused_ms.items():
            self._refused_ms[node_id] = min(now_ms, refused_ms + pause_ms)

    def heard_from(
        self,
        node_id: NodeId,
        *,
        epoch: int,
        connection: Hashable,
        now_ms: int,
        metadata_offset: int = -1,
    ) -> None:
        """A registration or heartbeat of the broker was accepted; `connection` is None when it came
        from this process.
        """
        self._disconnect(node_id)
        before = self._sessions.get(node_id)
        if before is not None and before.epoch != epoch:
            before = None  # of another process
        self._refused_ms.pop(node_id, None)
        if connection is not None:
            spoke_for = self._by_connection.get(connection)
            if spoke_for is not None:  # it speaks for another broker now
                self._disconnect(spoke_for)
            self._by_connection[connection] = node_id
        self._sessions[node_id] = Session(
            epoch=epoch,
            heard_ms=now_ms,
            spoke_ms=now_ms,
            is_connected=True,
            connection=connection,
            metadata_offset=metadata_offset,
            shutdown_offset=None if before is None else before.shutdown_offset,
            heard_since=set() if before is None else before.heard_since,
        )
        for leaving in self._sessions.values():
            if leaving.shutdown_offset is not None:
                leaving.heard_since.add(node_id)

    def shuts_down(self, node_id: NodeId, *, last_offset: int, has_stepped: bool) -> None:
        """The broker has come a step further, at the latest with the record at this offset."""
        session = self._sessions[node_id]
        if has_stepped or session.shutdown_offset is None:
            session.shutdown_offset = last_offset

    def connection_lost(self, connection: Hashable) -> NodeId | None:
        """The broker that was last heard from over it, if any: now its endpoint is to be tried."""
        node_id = self._by_connection.get(connection)
        if node_id is not None:
            self._disconnect(node_id)
        return node_id

    def refused(self, node_id: NodeId, *, epoch: int, now_ms: int) -> bool:
        """The broker's endpoint refused a connection (only ECONNREFUSED says so). True: it is dead.
        False: its session decides.
        """
        session = self._sessions.get(node_id)
        if session is None or session.epoch != epoch or session.is_connected:
            return False
        if session.ended_by is not None:
            return False  # that is known
        self._refused_ms[node_id] = now_ms
        if self._fenced_by_refusal.get(node_id) == epoch:
            return False
        recently = {
            refusing
            for refusing, refused_ms in self._refused_ms.items()
            if now_ms < refused_ms + self._timeout_ms
        }
        # Those that were just fenced for it count, too: the brokers are found one after the other.
        if 2 * len(recently) > len(self._sessions.keys() | recently):
            return False
        session.ended_by = GoneBy.CONNECTION
        return True

    def replaced(self, node_id: NodeId, *, epoch: int) -> bool:
        """Another process on its machine has its id and endpoints, and these refuse. True: it is
        dead.
        """
        session = self._sessions.get(node_id)
        if session is None or session.epoch != epoch:
            return False
        if self._fenced_by_refusal.get(node_id) == epoch:
            return False
        self._disconnect(node_id)
        session.ended_by = GoneBy.CONNECTION
        return True

    def restarted(self, node_id: NodeId) -> bool:
        """A new process of the broker takes its place, and cannot be registered yet. True: that is
        news.
        """
        self._refused_ms.pop(node_id, None)  # so it was not the network
        session = self._sessions.get(node_id)
        if session is None or session.ended_by is not None:
            return False
        self._disconnect(node_id)
        session.ended_by = GoneBy.RESTART
        return True

    def fenced(self, node_id: NodeId, *, epoch: int, by: GoneBy) -> None:
        if by is GoneBy.CONNECTION:
            self._fenced_by_refusal[node_id] = epoch
        self.ended(node_id)

    def ended(self, node_id: NodeId) -> None:
        """The broker was fenced or unregistered, or may shut down: it has no session any more."""
        self._disconnect(node_id)
        self._sessions.pop(node_id, None)

    def _may_expire(self, node_id: NodeId, session: Session) -> bool:
        """The own broker does so only while it is that of an earlier process, and if there is
        another broker that could take over.
        """
        if node_id != self._own_id:
            return True
        return not session.is_heard and len(self._sessions) > 1

    def _deadline_ms(self, session: Session) -> int:
        return session.heard_ms + self._timeout_ms

    def _disconnect(self, node_id: NodeId) -> None:
        session = self._sessions.get(node_id)
        if session is not None and session.is_connected:
            if session.connection is not None:
                del self._by_connection[session.connection]
            session.is_connected, session.connection = False, None
