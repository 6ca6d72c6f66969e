"""This broker in its cluster: it registers, is unfenced, keeps its session, and leaves.

register   a broker epoch from the active controller, once there is one
catch_up   the broker is told of the metadata up to its own registration
unfence    the broker knows the metadata up to its own registration: clients are led to it
run        heartbeats; one that was fenced meanwhile is unfenced by the next
leave      a clean stop: what it leads is given up before it goes
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from penstock.broker.controller.broker_lease import BrokerLease
from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.controller.local_controller import LocalController
from penstock.model.error import ErrorCode, PenstockError, RequestError
from penstock.model.identity import NodeId
from penstock.model.offset import Offset
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.wire.messages.broker_registration import BrokerRegistrationRequest
from penstock.world.ports import Clock

logger = logging.getLogger(__name__)

RETRY_WAIT_S = 0.05
ASK_WAIT_MS = 1_000
SAID_EVERY_MS = 5_000
# A stop waits so long for a controller that answers, and for others to learn of new leaders beyond
# the time in which the sessions of those that are silent expire.
ANSWER_WAIT_MS_MAX = 2_000
LEAVE_WAIT_MS_MAX = 6_000
# The cluster may take the broker later: there is no controller just now, its disk is full or it has
# too much to do, the session of the process before this one has not ended yet, or others are silent
# that may have lost records which this one has.
RETRIABLE = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
REGISTRATION_ENDED = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})


class NotRegistered(PenstockError):
    """The cluster does not take this broker, or has taken another one in its place."""


class Membership:
    """See the module. `failed_directories` are the ids of log directories that this broker
    registered with, and that have failed since; `registered` is told of each broker epoch that this
    broker is given; heartbeats that are acknowledged extend the `lease`.
    """

    def __init__(
        self,
        *,
        controller: ControllerLink,
        local: LocalController,
        node_id: NodeId,
        heartbeat_interval_ms: int,
        registration_timeout_ms: int,
        session_timeout_ms: int,
        clock: Clock,
        lease: BrokerLease,
        failed_directories: Callable[[], Iterable[bytes]] = tuple,
        registered: Callable[[int], None] = lambda epoch: None,
    ) -> None:
        self._controller = controller
        self._local = local
        self._failed_directories = failed_directories
        self._registered = registered
        self._node_id = node_id
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._registration_timeout_ms = registration_timeout_ms
        # By then the session of a process that is gone has ended: whoever has the id is alive.
        self._duplicate_timeout_ms = min(registration_timeout_ms, 2 * session_timeout_ms)
        self._leave_timeout_ms = session_timeout_ms + LEAVE_WAIT_MS_MAX
        self._clock = clock
        self._lease = lease
        self._broker_epoch = -1
        self._registration: BrokerRegistrationRequest | None = None
        self._is_leaving = False

    @property
    def broker_epoch(self) -> int:
        """As it was given; -1 until then."""
        return self._broker_epoch

    async def register(self, registration: BrokerRegistrationRequest) -> int:
        """The broker's epoch. NotRegistered when the cluster does not take it, or does not answer
        for as long as `initial.broker.registration.timeout.ms` says.
        """
        self._registration = registration
        began_ms = said_ms = self._clock.monotonic_ms()
        while True:
            try:
                registered = await self._controller.ask(registration, wait_ms_max=ASK_WAIT_MS)
            except RequestError as refusal:
                now_ms = self._clock.monotonic_ms()
                reason = self._reason(refusal)
                if refusal.code not in RETRIABLE:
                    raise NotRegistered(reason) from refusal
                timeout_ms = self._registration_timeout_ms
                if refusal.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                    timeout_ms = self._duplicate_timeout_ms
                if now_ms - began_ms >= timeout_ms:
                    waited_s = timeout_ms / 1000
                    raise NotRegistered(f"{reason}: gave up after {waited_s:g} s") from refusal
                if now_ms - said_ms >= SAID_EVERY_MS:
                    said_ms = now_ms
                    logger.warning("broker=%d registered=false %s", self._node_id, reason)
                await asyncio.sleep(RETRY_WAIT_S)
            else:
                self._note_registered(registered.broker_epoch)
                return self._broker_epoch

    async def catch_up(self) -> None:
        """Returns when the broker has been told of the metadata up to its own registration.
        NotRegistered when nothing of it arrives for as long as a registration may take.
        """
        local = self._local
        local.publish_from(Offset(self._broker_epoch + 1))
        had, epoch = local.image.offset, local.quorum.replica.epoch
        moved_ms = said_ms = self._clock.monotonic_ms()
        while not local.has_published or local.image.offset <= self._broker_epoch:
            await self._wait(RETRY_WAIT_S)
            if local.quorum.replica.epoch != epoch and local.leader_id is not None:
                # Where the voters disagree, a controller may have taken the registration that this
                # node does not follow.
                asked_epoch = local.quorum.replica.epoch
                if await self._register_again():
                    epoch = asked_epoch
                else:
                    await asyncio.sleep(ASK_WAIT_MS / 1000)
                local.publish_from(Offset(self._broker_epoch + 1))
            now_ms = self._clock.monotonic_ms()
            if local.image.offset > had:
                had, moved_ms = local.image.offset, now_ms
            lacks = (
                f"the metadata has come to offset {had}, and this broker's registration is at"
                f" {self._broker_epoch}; waiting for records from a leader of"
                f" {self._local.quorum.voters_text}"
            )
            if now_ms - moved_ms >= self._registration_timeout_ms:
                waited_s = self._registration_timeout_ms / 1000
                raise NotRegistered(f"{lacks}: gave up after {waited_s:g} s")
            if now_ms - said_ms >= SAID_EVERY_MS:
                said_ms = now_ms
                logger.warning("broker=%d registered=true %s", self._node_id, lacks)

    async def unfence(self) -> None:
        """Returns when this node's own image shows that clients are led to it."""
        began_ms = said_ms = self._clock.monotonic_ms()
        while self._is_fenced:
            try:
                await self._beat()
            except RequestError as refusal:
                self._check_not_replaced(refusal)
            now_ms = self._clock.monotonic_ms()
            if now_ms - said_ms >= SAID_EVERY_MS:
                said_ms = now_ms
                logger.warning(
                    "broker=%d fenced=true waited_s=%d", self._node_id, (now_ms - began_ms) // 1000
                )
            if self._is_fenced:
                await self._wait(RETRY_WAIT_S)

    async def run(self) -> None:
        """Heartbeats until cancelled. NotRegistered when another process has taken this broker's
        place.
        """
        told_offset = Offset(0)  # of the image, at the last heartbeat
        told_epoch = -1  # whose controller has accepted one
        while True:
            until_ms = self._clock.monotonic_ms() + self._heartbeat_interval_ms
            # A new controller hears from its brokers at once: others are taken for dead sooner.
            # A broker that shuts down waits at each step until all others say that they know it.
            while (
                self._local.quorum.replica.epoch == told_epoch
                and not self._is_fenced
                and not (told_offset < self._local.image.offset and self._another_shuts_down())
            ):
                left_ms = until_ms - self._clock.monotonic_ms()
                if left_ms <= 0 or not await self._wait(left_ms / 1000):
                    break
            if self._is_leaving:
                return
            offset, epoch = self._local.image.offset, self._local.quorum.replica.epoch
            try:
                await self._beat()
            except RequestError as refusal:
                self._check_not_replaced(refusal)
                if refusal.code == ErrorCode.BROKER_ID_NOT_REGISTERED:
                    # Somebody has unregistered this broker, which lives: to remove it, it is
                    # stopped first.
                    logger.warning("broker=%d registered=false unregistered=true", self._node_id)
                    await self._register_again()
                await asyncio.sleep(RETRY_WAIT_S)
            else:
                told_offset, told_epoch = offset, epoch
                if self._is_fenced:
                    await asyncio.sleep(RETRY_WAIT_S)

    async def leave(self) -> None:
        """Gives up what this broker leads, and returns when the others know who leads instead.
        Without a controller there is nobody to tell.
        """
        self._is_leaving = True
        began_ms = answered_ms = self._clock.monotonic_ms()
        while (
            self._clock.monotonic_ms() - answered_ms < ANSWER_WAIT_MS_MAX
            and self._clock.monotonic_ms() - began_ms < self._leave_timeout_ms
        ):
            try:
                reply = await self._last_beat()
            except RequestError as refusal:
                if refusal.code in REGISTRATION_ENDED:
                    return
            else:
                if reply is None:
                    break
                answered_ms = self._clock.monotonic_ms()
                if reply.should_shut_down:
                    return
            await asyncio.sleep(RETRY_WAIT_S)
        logger.warning(
            "broker=%d left=false waited_ms=%d no controller has let it go, or another broker is"
            " silent",
            self._node_id, self._clock.monotonic_ms() - began_ms,
        )  # fmt: skip

    async def _last_beat(self) -> BrokerHeartbeatResponse | None:
        """None when so many voters have gone that nobody can answer: the last ones of a cluster
        that is stopped do not wait for each other.
        """
        quorum = self._local.quorum
        beating = asyncio.ensure_future(self._beat(shut_down=True))
        looking: asyncio.Future[None] | None = None
        try:
            while not beating.done() and not quorum.has_lost_majority:
                await asyncio.wait([beating], timeout=RETRY_WAIT_S)
                if not beating.done() and (looking is None or looking.done()):
                    # It takes longer than usual. The active controller may be the last voter.
                    looking = asyncio.ensure_future(quorum.look_for_voters())
            return beating.result() if beating.done() else None
        finally:
            beating.cancel()
            if looking is not None:
                looking.cancel()

    @property
    def _is_fenced(self) -> bool:
        """As this node's own image has it."""
        broker = self._local.image.brokers.get(self._node_id)
        return broker is None or broker.epoch != self._broker_epoch or broker.fenced

    def _another_shuts_down(self) -> bool:
        return any(
            broker.in_controlled_shutdown and not broker.fenced
            for broker in self._local.image.brokers.values()
        )

    async def _beat(self, *, shut_down: bool = False) -> BrokerHeartbeatResponse:
        sent_ms = self._clock.monotonic_ms()
        reply: BrokerHeartbeatResponse = await self._controller.ask(
            BrokerHeartbeatRequest(
                broker_id=self._node_id,
                broker_epoch=self._broker_epoch,
                current_metadata_offset=self._local.image.offset - 1,
                want_fence=False,
                want_shut_down=shut_down,
                offline_log_dirs=sorted(self._failed_directories()),
            ),
            wait_ms_max=ASK_WAIT_MS,
        )
        if reply.is_fenced:
            self._lease.fenced()
        elif not shut_down:
            self._lease.acknowledged(sent_ms=sent_ms, metadata_offset=reply.metadata_offset)
        return reply

    async def _register_again(self) -> bool:
        assert self._registration is not None, "it has registered before"
        try:
            registered = await self._controller.ask(self._registration, wait_ms_max=ASK_WAIT_MS)
        except RequestError as refusal:
            logger.warning("broker=%d registered=false %s", self._node_id, self._reason(refusal))
            return False
        self._note_registered(registered.broker_epoch)
        return True

    def _note_registered(self, epoch: int) -> None:
        self._broker_epoch = epoch
        self._registered(epoch)

    async def _wait(self, seconds: float) -> bool:
        """For a change of the image or the leader; False when there was none."""
        try:
            async with asyncio.timeout(seconds):
                await self._local.change()
        except TimeoutError:
            return False
        return True

    def _check_not_replaced(self, refusal: RequestError) -> None:
        """NotRegistered if another process has this broker's id now. A refusal counts when this
        node's own image says the same.
        """
        if refusal.code not in REGISTRATION_ENDED:
            return
        broker = self._local.image.brokers.get(self._node_id)
        if broker is not None and broker.epoch > self._broker_epoch:
            raise NotRegistered(
                f"another process has registered as broker {self._node_id}:"
                " no two nodes may have the same node.id"
            )

    def _reason(self, refusal: RequestError) -> str:
        match refusal.code:
            case ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                return (
                    f"node.id={self._node_id} is taken: a broker with this id is alive in the"
                    " cluster; give this node another id, or stop that one (this directory may be"
                    " a copy of its)"
                )
            case ErrorCode.INCONSISTENT_CLUSTER_ID:
                return (
                    f"the controllers belong to another cluster than this node's directories:"
                    f" look at controller.quorum.voters ({self._local.quorum.voters_text})"
                )
            case ErrorCode.NOT_CONTROLLER | ErrorCode.REQUEST_TIMED_OUT:
                voters = self._local.quorum.voters_text
                return f"no controller is active; waiting for a majority of {voters}"
            case ErrorCode.BROKER_NOT_AVAILABLE:
                return (
                    "other brokers are silent; waiting until they are heard from or their sessions"
                    " have ended, as they may lack records that this one has"
                )
            case ErrorCode.KAFKA_STORAGE_ERROR:
                return "the active controller cannot store the registration (disk full?)"
            case ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                return "the active controller has too many requests to decide"
            case _:
                return f"the controller refuses this broker: {refusal}"
