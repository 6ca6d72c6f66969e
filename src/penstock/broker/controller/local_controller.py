"""The controller of this process, on the quorum's log.

The quorum elects one active controller. While this node is it, a request is decided, journalled and
applied in one step (`machine/host`); the quorum commits it, the broker gets a new image, and only
then the replies leave. So who was told of a topic finds it here, and finds it again after any
crash. Snapshots are made beside that (`snapshotting`).
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import chain
from typing import Any, assert_never

from penstock.broker.controller.controller_link import ANSWER_WAIT_MS_MAX
from penstock.broker.controller.metadata_journal import MetadataJournal
from penstock.broker.controller.quorum_driver import (
    Listener,
    Peers,
    QuorumDriver,
    QuorumMember,
)
from penstock.broker.controller.snapshotting import Snapshotting
from penstock.log.partition_log import PartitionLog
from penstock.machine.decision import Decision
from penstock.machine.held_replies import NotDone
from penstock.machine.host import Host
from penstock.metadata.controller.brokers import bootstrap_records
from penstock.metadata.controller.decide import (
    ControllerReply,
    ControllerRequest,
    decide,
)
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.effective import effective_broker
from penstock.metadata.framing import FrameReader
from penstock.metadata.image.difference import difference
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.loader import Loader
from penstock.metadata.records import MetadataRecord
from penstock.metadata.snapshot import image_records
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NO_TOPIC_ID, TopicId
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.model.offset import Offset, SnapshotId
from penstock.model.settings.broker import BrokerSettings
from penstock.raft.effects import Became
from penstock.wire.messages.create_topics import CreateTopicsRequest
from penstock.world.ports import World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

Publish = Callable[[Delta, Image], None]
# A refusal of the whole request is a reply too: it is held like a read.
Outcome = ControllerReply | RequestError


class LocalController:
    """`open` first, then keep `run` running; `ask` is the ControllerLink."""

    def __init__(
        self,
        *,
        log: PartitionLog,
        world: World,
        member: QuorumMember,
        settings: BrokerSettings,
        publish: Publish,
    ) -> None:
        self._world = world
        self._member = member
        self._node_id = member.key.node_id
        self._settings = settings
        self._publish = publish
        self._journal = MetadataJournal(
            log=log,
            disk=world.disk,
            clock=world.clock,
            node_id=self._node_id,
            voters=member.voters.node_ids,
        )
        self._loader = Loader()
        self._driver: QuorumDriver | None = None
        self._snapshotting = Snapshotting(
            journal=self._journal,
            image=lambda: self.image,
            trimmed=lambda snapshot: self.quorum.trimmed(snapshot),
            synced_offset=lambda: self.quorum.replica.synced_offset,
            world=world,
            settings=settings,
        )
        self._state = ControllerState()
        self._host: Host[MetadataRecord, Outcome] | None = None  # while this node is active
        self._elected = False  # just now: the host is still to be made
        self._has_published = False
        self._sooner_deadline = asyncio.Event()
        self._expiry_ms: int | None = None  # when the next look at deadlines is due

    @property
    def image(self) -> Image:
        """The cluster as far as it is committed; published with the first commit of a start."""
        return self._loader.image

    @property
    def is_active(self) -> bool:
        """Whether this node decides: it leads the quorum, and all that its log had is committed."""
        return self._host is not None and self._host.is_open

    @property
    def quorum(self) -> QuorumDriver:
        assert self._driver is not None, "`open` comes first"
        return self._driver

    def open(self) -> Image:
        """Reads snapshot and log, and starts the replica. The quorum's one voter is active, with an
        image of all that is in the log, when this returns.
        """
        recovered = self._journal.recover()
        for damage in recovered.damaged:
            logger.warning("metadata snapshot damaged=true used=false reason=%s", damage)
        if recovered.snapshot is not None:
            offset, epoch = recovered.snapshot
            self._loader.load(recovered.records, next_offset=offset, epoch=epoch)
        self._snapshotting.opened()
        self._driver = QuorumDriver(
            member=self._member,
            log=self._journal,
            world=self._world,
            listener=Listener(
                became=self._became,
                committed=self._commit,
                installed=self._install,
                settled=self._begin_if_elected,
            ),
        )
        self._driver.start()
        return self.image

    async def run(self, peers: Peers | None = None) -> None:
        """Keeps the quorum and its time until cancelled. A failed sync ends it, and with it the
        node.
        """
        assert self._driver is not None, "`open` comes first"
        async with TaskGroup() as tasks:
            tasks.start(self._driver.run(peers))
            tasks.start(self._keep_expiring())
            tasks.start(self._snapshotting.run())

    async def ask(
        self, request: ControllerRequest, *, wait_ms_max: int = ANSWER_WAIT_MS_MAX
    ) -> Any:
        """See ControllerLink, whose overloads give the reply's type."""
        answered: asyncio.Future[Outcome | NotDone] = asyncio.get_running_loop().create_future()

        def answer(outcome: Outcome | NotDone) -> None:
            if not answered.done():
                answered.set_result(outcome)

        host, driver = self._host, self._driver
        if host is None or driver is None:
            raise RequestError(ErrorCode.NOT_CONTROLLER, NotDone.LEADERSHIP_LOST.value)
        deadline_ms = self._world.clock.monotonic_ms() + wait_ms_max
        end_offset = self._journal.end_offset
        host.submit(lambda: self._decide(request), deadline_ms=deadline_ms, answer=answer)
        if self._journal.end_offset > end_offset:
            driver.appended()
        if self._expiry_ms is None or deadline_ms < self._expiry_ms:
            self._sooner_deadline.set()
        outcome = await answered
        if isinstance(outcome, NotDone):
            raise RequestError(_code(outcome), outcome.value)
        if isinstance(outcome, RequestError):
            raise outcome
        return outcome

    def close(self) -> None:
        """Whoever still waits is told that this controller has gone. The log is its owner's."""
        self._end_leading()

    # The quorum

    def _became(self, became: Became) -> None:
        logger.info(
            "quorum role=%s epoch=%d leader=%s",
            became.role, became.epoch, "none" if became.leader_id is None else became.leader_id,
        )  # fmt: skip
        self._end_leading()
        self._elected = became.role == LEADER

    def _begin_if_elected(self) -> None:
        """The leader-change record is in the log: this controller becomes active. Its state is
        built from what is committed and what the log has beyond that; it decides nothing before
        all of it is committed in its own epoch.
        """
        if not self._elected:
            return
        self._elected = False
        journal, driver = self._journal, self._driver
        assert driver is not None
        self._state = ControllerState()
        for record in image_records(self.image):
            self._state.apply(record)
        host: Host[MetadataRecord, Outcome] = Host(
            journal=journal,
            machine=self._state,
            watermark=self.image.offset,
            carry_out=_no_effects,
        )
        frames = FrameReader()
        entries = journal.tail
        for entry in entries:
            host.replay(frames.read(entry.records), next_offset=entry.next_offset)
        end_offset = journal.end_offset
        if frames.is_open:
            journal.abort_frame()
        if not self.image.features and not any(entry.records for entry in entries):
            journal.append(bootstrap_records())
        for entry in journal.tail[len(entries) :]:
            host.replay(frames.read(entry.records), next_offset=entry.next_offset)
        assert not frames.is_open
        host.opened()
        self._host = host
        if journal.end_offset > end_offset:
            driver.appended()

    def _end_leading(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            host.lose_leadership()

    def _commit(self, offset: Offset) -> None:
        """Kept for good from here on: first this broker learns of it, then those who asked."""
        entries = self._journal.committed(offset)
        if entries:
            delta, image = self._loader.load(
                chain.from_iterable(entry.records for entry in entries),
                next_offset=entries[-1].next_offset,
                epoch=entries[-1].epoch,
            )
            if not self._has_published:  # what a snapshot holds is new to this broker, too
                delta = difference(Image(), image)
            self._has_published = True
            self._journal.in_image(image.offset)
            self._publish(delta, image)
            self._snapshotting.note(entries)
        if self._host is not None:
            self._host.advance(offset)

    def _install(self, snapshot: SnapshotId) -> None:
        """A snapshot of the leader took the place of the log: this broker learns what is in it."""
        loader = Loader()
        records = self._journal.snapshot_records(snapshot)
        _, image = loader.load(records, next_offset=snapshot.offset, epoch=snapshot.epoch)
        before = self._loader.image if self._has_published else Image()
        self._loader, self._has_published = loader, True
        self._snapshotting.installed(snapshot)
        self._publish(difference(before, image), image)

    def _decide(self, request: ControllerRequest) -> Decision[MetadataRecord, Outcome]:
        context = DecisionContext(
            state=self._state,
            node_id=self._node_id,
            settings=effective_broker(self._settings, self._state, self._node_id),
            next_offset=self._journal.end_offset,
            fresh_ids=self._fresh_ids(request),
        )
        try:
            return decide(context, request)
        except RequestError as refused:
            return Decision.refuse(refused)

    def _fresh_ids(self, request: ControllerRequest) -> list[TopicId]:
        """Random topic ids, none of which is taken or reserved."""
        asked = len(request.topics) if isinstance(request, CreateTopicsRequest) else 0
        wanted = min(asked, DECISION_RECORDS_MAX)
        ids: dict[TopicId, None] = {}
        while len(ids) < wanted:
            fresh = TopicId(self._world.entropy.random_bytes(16))
            # The small numbers are reserved, and a leading dash looks like an option to tools.
            usable = fresh[:15] != NO_TOPIC_ID[:15] and fresh[0] >> 2 != DASH
            if usable and fresh not in self._state.topics_by_id:
                ids[fresh] = None
        return list(ids)

    async def _keep_expiring(self) -> None:
        while True:
            now_ms = self._world.clock.monotonic_ms()
            host = self._host
            if host is not None:
                host.expire(now_ms)
            self._expiry_ms = None if host is None else host.next_deadline_ms()
            wait_ms = None if self._expiry_ms is None else self._expiry_ms - now_ms
            self._sooner_deadline.clear()
            try:
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                    await self._sooner_deadline.wait()
            except TimeoutError:
                continue


def _code(outcome: NotDone) -> ErrorCode:
    match outcome:
        case NotDone.APPEND_FAILED:
            return ErrorCode.KAFKA_STORAGE_ERROR
        case NotDone.TOO_LARGE:
            return ErrorCode.POLICY_VIOLATION
        case NotDone.TIMED_OUT:
            return ErrorCode.REQUEST_TIMED_OUT
        case NotDone.LEADERSHIP_LOST | NotDone.LOADING:
            return ErrorCode.NOT_CONTROLLER
        case NotDone.FULL:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        case _:
            assert_never(outcome)


def _no_effects(effect: object) -> None:
    raise AssertionError(f"the controller's decisions have no effects: {effect!r}")


LEADER = "leader"  # as roles name themselves
DASH = 62  # the number of "-" in URL-safe base64
