"""Which brokers live, as the active controller sees it.

A broker keeps its session by heartbeats. One that is silent is fenced when its session has expired.
One whose process has ended is known sooner: its connection breaks, and its machine refuses another
one. Only a refusal counts for that: a time-out, or a host that cannot be reached, may be the fault
of the network, and then the session decides. The connection of a machine that lost power does not
break; there the refusal is asked for when the restarted process registers.

Those that are gone are fenced in one decision, which may have to wait for brokers that are silent
(`fencing`).

`run` wakes often enough to know when this process stood still. Heartbeats that were sent meanwhile
are still in the sockets, so that time does not count against the brokers.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping

from penstock.metadata.controller.broker_sessions import BrokerSessions
from penstock.metadata.controller.contact import note_contact
from penstock.metadata.controller.decide import ControllerReply, ControllerRequest
from penstock.metadata.controller.fencing import GoneBroker
from penstock.metadata.image.broker import BrokerImage
from penstock.model.error import ErrorCode
from penstock.model.events import BROKER_GONE
from penstock.model.identity import NodeId, id_text
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.wire.messages.broker_registration import BrokerRegistrationRequest
from penstock.world.errors import ConnectionRefused, NetworkError
from penstock.world.event_log import tell
from penstock.world.ports import Address, World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

# A process that ends closes its sockets one by one: the first attempt may still be accepted.
PROBES_AFTER_S = (0.0, 0.05, 0.2)
PROBE_TIMEOUT_S = 2.0
RETRY_WAIT_MS = 1_000
WAKE_MS_MAX = 500  # between two looks at the clock while there are sessions
WAKES_PER_SESSION = 8
PAUSE_LOGGED_MS_MIN = 1_000

Fence = Callable[[tuple[GoneBroker, ...]], None]


class BrokerWatch:
    """`begin` and `end` with each election of this controller; keep `run` running."""

    def __init__(
        self,
        *,
        own_id: NodeId,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        world: World,
        brokers: Callable[[], Mapping[NodeId, BrokerImage]],
        fence: Fence,
    ) -> None:
        self._own_id = own_id
        self._session_timeout_ms = session_timeout_ms
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._world = world
        self._brokers = brokers
        self._fence = fence
        self._sooner = asyncio.Event()
        self._tasks: TaskGroup | None = None
        self.sessions = self._fresh()
        self._is_watching = False
        self._told: set[GoneBroker] = set()  # gone, and to be fenced
        # Those that could not be fenced, since when, and when to try again unless there is news.
        self._waiting: frozenset[NodeId] = frozenset()
        self._waiting_since_ms = self._retry_ms = 0
        self._is_waiting_said = False
        self._replacing: set[NodeId] = set()  # whose endpoints are being tried for a new process
        # `run` wakes by then, unless this process stands still or is very busy.
        self._wake_interval_ms = min(WAKE_MS_MAX, session_timeout_ms // WAKES_PER_SESSION)
        self._wake_ms: int | None = None

    def begin(self) -> None:
        """This controller has become active: everyone has a whole session to report in. Those who
        died with the last controller are looked for at once.
        """
        self.sessions = self._fresh()
        self.sessions.begin(self._brokers().values(), self._now_ms())
        self._is_watching = True
        self._sooner.set()
        self._probe(self.sessions.unheard())

    def end(self) -> None:
        self._is_watching = False
        self._wake_ms = None
        self.sessions = self._fresh()
        self._told.clear()
        self._waiting = frozenset()

    def note_pause(self) -> None:
        """To be called before anything is decided: time in which this process stood still does not
        count.
        """
        if self._wake_ms is None:
            return
        now_ms = self._now_ms()
        pause_ms = now_ms - self._wake_ms
        if pause_ms > self._wake_interval_ms:
            self._wake_ms = now_ms
            self.sessions.not_listening(pause_ms, now_ms)
            if pause_ms >= PAUSE_LOGGED_MS_MIN:
                logger.warning(
                    "controller paused_ms=%d sessions of brokers last longer by that", pause_ms
                )

    def note(
        self,
        request: ControllerRequest,
        reply: ControllerReply,
        *,
        connection: Hashable,
        last_offset: int,
        has_records: bool,
    ) -> None:
        """A request was accepted: it may keep or end a broker's session."""
        if isinstance(
            request, BrokerRegistrationRequest | BrokerHeartbeatRequest
        ) and self.sessions.is_silent(NodeId(request.broker_id), self._now_ms()):
            self._retry_ms = 0  # somebody may have waited for it
        note_contact(
            self.sessions,
            request,
            reply,
            connection=connection,
            last_offset=last_offset,
            has_records=has_records,
            now_ms=self._now_ms(),
        )
        self._sooner.set()

    def note_refusal(
        self, request: ControllerRequest, code: ErrorCode, connection: Hashable
    ) -> None:
        """A request was refused: a registration may say something of the broker all the same."""
        if not isinstance(request, BrokerRegistrationRequest):
            return
        if code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._probe_duplicate(request, connection)
        elif code == ErrorCode.BROKER_NOT_AVAILABLE and self.sessions.restarted(
            NodeId(request.broker_id)
        ):
            self._sooner.set()

    def _probe_duplicate(self, request: BrokerRegistrationRequest, connection: Hashable) -> None:
        """The broker with the id of a registration is taken for alive. If that comes from another
        machine than the broker's heartbeats, the session decides: where a name leads to that
        machine now, nobody listens there yet.
        """
        if self._tasks is None:
            return
        node_id = NodeId(request.broker_id)
        broker = self._brokers().get(node_id)
        if broker is None or broker.fenced or node_id in (self._own_id, *self._replacing):
            return
        last = self.sessions.connection_of(node_id)
        if not (isinstance(connection, Address) and isinstance(last, Address)):
            return
        if connection.host != last.host:
            return
        wanted = {(one.host, one.port) for one in request.listeners}
        if wanted == {(one.host, one.port) for one in broker.endpoints}:
            self._replacing.add(node_id)
            self._tasks.start(self._fence_if_replaced(broker), name=f"probe broker {node_id}")

    def note_directories(self, request: ControllerRequest) -> None:
        """Before a registration takes effect: directories that the broker had are missed."""
        if not isinstance(request, BrokerRegistrationRequest):
            return
        present = self._brokers().get(NodeId(request.broker_id))
        gone = set() if present is None else set(present.directories) - set(request.log_dirs)
        if gone:
            logger.warning(
                "broker=%d registers without log_directories=%s that it had before: a disk is away,"
                " or directory.id was changed in meta.properties",
                request.broker_id, ",".join(sorted(map(id_text, gone))),
            )  # fmt: skip

    def connection_lost(self, connection: Address) -> None:
        """A connection to this controller was closed, whoever had it."""
        node_id = self.sessions.connection_lost(connection)
        if self._is_watching and node_id is not None:
            self._probe((node_id,))

    async def run(self) -> None:
        """Fences brokers whose session has expired, until cancelled."""
        async with TaskGroup() as tasks:
            self._tasks = tasks
            if self._is_watching:
                self._probe(self.sessions.unheard())
            while True:
                self._sooner.clear()
                self.note_pause()
                self._fence_gone()
                await self._next_occasion()

    async def _next_occasion(self) -> None:
        """Returns when there is news, or a session may have expired, or it is time to look at the
        clock.
        """
        now_ms = self._now_ms()
        due_ms = self.sessions.next_deadline_ms() if self._is_watching else None
        if due_ms is not None and due_ms <= now_ms:  # it could not be written just now, or waits
            due_ms = now_ms + RETRY_WAIT_MS
        self._wake_ms = None if due_ms is None else min(due_ms, now_ms + self._wake_interval_ms)
        try:
            async with asyncio.timeout(
                None if self._wake_ms is None else max(0, self._wake_ms - now_ms) / 1000
            ):
                await self._sooner.wait()
        except TimeoutError:
            pass

    def _fence_gone(self) -> None:
        """In one decision. Some may have to wait for brokers that are silent."""
        if not self._is_watching:
            return
        self.note_pause()
        now_ms = self._now_ms()
        gone = []
        for node_id, by in sorted(self.sessions.gone(now_ms).items()):
            broker = self._brokers().get(node_id)
            if broker is not None and not broker.fenced:
                gone.append(GoneBroker(node_id=node_id, broker_epoch=broker.epoch, by=by))
            else:
                self.sessions.ended(node_id)
        self._tell_gone(gone)
        if {one.node_id for one in gone} <= self._waiting and now_ms < self._retry_ms:
            return
        if gone:
            self._fence(tuple(gone))
        left = self.sessions.gone(now_ms)
        self._note_waiting(frozenset(one.node_id for one in gone if one.node_id in left))

    def _tell_gone(self, gone: Iterable[GoneBroker]) -> None:
        """Each once, until it was fenced, or has come back."""
        for one in gone:
            if one not in self._told:
                tell(
                    logger,
                    BROKER_GONE,
                    broker=one.node_id,
                    broker_epoch=one.broker_epoch,
                    reason=one.by.value,
                )
        self._told = set(gone)

    def _note_waiting(self, waiting: frozenset[NodeId]) -> None:
        """They could not be fenced now: whether those have ended that they wait for is tried."""
        now_ms = self._now_ms()
        if not self._waiting:
            self._waiting_since_ms, self._is_waiting_said = now_ms, False
        self._waiting = waiting
        if not waiting:
            return
        self._retry_ms = now_ms + RETRY_WAIT_MS
        self._probe(self.sessions.disconnected())
        if not self._is_waiting_said and now_ms - self._waiting_since_ms >= RETRY_WAIT_MS:
            self._is_waiting_said = True
            logger.warning(
                "brokers=%s gone=true fenced=false the others in some of their in-sync sets are"
                " silent, or the metadata cannot be written: waiting until that is over",
                ",".join(map(str, sorted(waiting))),
            )  # fmt: skip

    def _probe(self, node_ids: Iterable[NodeId]) -> None:
        if self._tasks is None:
            return
        for node_id in node_ids:
            broker = self._brokers().get(node_id)
            if node_id != self._own_id and broker is not None and not broker.fenced:
                self._tasks.start(self._fence_if_refused(broker), name=f"probe broker {node_id}")

    async def _fence_if_refused(self, broker: BrokerImage) -> None:
        sessions = self.sessions
        for wait_s in PROBES_AFTER_S:
            await asyncio.sleep(wait_s)
            if sessions is not self.sessions:
                return  # of another election
            if not await self._is_refused(broker) or sessions is not self.sessions:
                continue
            present = self._brokers().get(broker.node_id)
            if present is None or present.epoch != broker.epoch or present.fenced:
                return
            now_ms = self._now_ms()
            if sessions.refused(broker.node_id, epoch=broker.epoch, now_ms=now_ms):
                self._fence_gone()
            return

    async def _fence_if_replaced(self, broker: BrokerImage) -> None:
        sessions = self.sessions
        try:
            is_refused = await self._is_refused(broker)
        finally:
            self._replacing.discard(broker.node_id)
        present = self._brokers().get(broker.node_id)
        if not is_refused or sessions is not self.sessions or present is None:
            return
        if present.fenced or present.epoch != broker.epoch:
            return
        if sessions.replaced(broker.node_id, epoch=broker.epoch):
            self._fence_gone()

    async def _is_refused(self, broker: BrokerImage) -> bool:
        """Whether the broker's machine says that nobody listens at any of its endpoints."""
        for endpoint in broker.endpoints:
            address = Address(host=endpoint.host, port=endpoint.port)
            try:
                async with asyncio.timeout(PROBE_TIMEOUT_S):
                    stream = await self._world.network.connect(address)
            except ConnectionRefused:
                continue
            except (NetworkError, TimeoutError):
                return False
            stream.close()
            return False
        return bool(broker.endpoints)

    def _fresh(self) -> BrokerSessions:
        return BrokerSessions(
            own_id=self._own_id,
            timeout_ms=self._session_timeout_ms,
            heartbeat_interval_ms=self._heartbeat_interval_ms,
        )

    def _now_ms(self) -> int:
        return self._world.clock.monotonic_ms()
