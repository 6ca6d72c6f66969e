"""The controller in this process: the quorum's one voter, on its own metadata log.

A request is decided, journalled and applied in one step (`machine/host`). A commit task then syncs
the journal, one sync for all who wait, hands what became durable to the broker as a new image, and
only then lets the replies leave. So who was told of a topic finds it here, and finds it again after
any crash. Snapshots are made beside that (`snapshotting`).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, assert_never

from penstock.broker.controller.controller_link import ANSWER_WAIT_MS_MAX
from penstock.broker.controller.metadata_journal import Entry, MetadataJournal
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
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.loader import Loader
from penstock.metadata.records import LogRecord, MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NO_TOPIC_ID, NodeId, TopicId
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.model.offset import LeaderEpoch
from penstock.model.settings.broker import BrokerSettings
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
        node_id: NodeId,
        settings: BrokerSettings,
        publish: Publish,
    ) -> None:
        self._world = world
        self._node_id = node_id
        self._settings = settings
        self._publish = publish
        self._journal = MetadataJournal(log=log, disk=world.disk, clock=world.clock)
        self._loader = Loader()
        self._snapshotting = Snapshotting(
            journal=self._journal, image=lambda: self.image, world=world, settings=settings
        )
        self._state = ControllerState()
        self._host: Host[MetadataRecord, Outcome] = Host(
            journal=self._journal,
            machine=self._state,
            watermark=self._journal.start_offset,
            carry_out=_no_effects,
        )
        self._submitted = asyncio.Event()
        self._sooner_deadline = asyncio.Event()
        self._expiry_ms: int | None = None  # when the next look at deadlines is due

    @property
    def image(self) -> Image:
        """The cluster as it was last published."""
        return self._loader.image

    def open(self) -> Image:
        """Replays the log, begins a new epoch, publishes the image; then requests are taken."""
        recovered = self._journal.recover()
        for damage in recovered.damaged:
            logger.warning("metadata snapshot damaged=true used=false reason=%s", damage)
        frames = FrameReader()
        if recovered.snapshot is not None:
            self._host.replay(frames.read(recovered.records), next_offset=recovered.snapshot.offset)
        entries = recovered.entries
        for entry in entries:
            self._host.replay(frames.read(entry.records), next_offset=entry.next_offset)
        self._journal.elect(self._node_id, epoch=LeaderEpoch(self._journal.last_epoch + 1))
        if frames.is_open:
            self._journal.abort_frame()
        if not recovered.records and not any(entry.records for entry in entries):
            self._journal.append(bootstrap_records())
        for entry in (begun := self._journal.sync()):
            self._host.replay(frames.read(entry.records), next_offset=entry.next_offset)
        assert not frames.is_open
        entries += begun
        self._host.opened()
        self._snapshotting.opened()
        self._commit(entries, recovered.records)
        return self.image

    async def run(self) -> None:
        """Commits and expires until cancelled. A failed sync ends it, and with it the node."""
        async with TaskGroup() as tasks:
            tasks.start(self._keep_committing())
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

        deadline_ms = self._world.clock.monotonic_ms() + wait_ms_max
        self._host.submit(lambda: self._decide(request), deadline_ms=deadline_ms, answer=answer)
        self._submitted.set()
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
        self._host.lose_leadership()

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

    async def _keep_committing(self) -> None:
        while True:
            await self._submitted.wait()
            self._submitted.clear()
            end_offset = self._journal.end_offset
            if end_offset > self._host.watermark:
                await self._world.disk.sync(self._journal.unsynced())
                self._commit(self._journal.synced(end_offset))

    def _commit(self, entries: list[Entry], snapshot: Sequence[LogRecord] = ()) -> None:
        """Durable from here on: first this broker learns of it, then those who asked. At a start
        the records of a snapshot come before the entries.
        """
        end_offset = entries[-1].next_offset
        delta, image = self._loader.load(
            chain(snapshot, *(entry.records for entry in entries)),
            next_offset=end_offset,
            epoch=entries[-1].epoch,
        )
        self._publish(delta, image)
        self._snapshotting.note(entries)
        self._host.advance(end_offset)

    async def _keep_expiring(self) -> None:
        while True:
            now_ms = self._world.clock.monotonic_ms()
            self._host.expire(now_ms)
            self._expiry_ms = self._host.next_deadline_ms()
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


DASH = 62  # the number of "-" in URL-safe base64
