"""This node's replica of the metadata, and the controller while this node is the active one.

Every node has it. What the quorum commits becomes an image of the cluster, which the broker of this
process follows (`publish`). The quorum elects one active controller among its voters. While this
node is it, a request is decided, journalled and applied in one step (`machine/host`); the quorum
commits it, the broker gets a new image, and only then the replies leave. So who was told of a topic
finds it here, and finds it again after any crash. Brokers that are gone are fenced
(`broker_watch`), and snapshots are made (`snapshotting`) beside that.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import Any, assert_never

from penstock.broker.controller.broker_watch import BrokerWatch
from penstock.broker.controller.controller_link import ANSWER_WAIT_MS_MAX, AnyReply
from penstock.broker.controller.leader_balance import LeaderBalance
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
from penstock.metadata.controller.elections import BalanceLeaders
from penstock.metadata.controller.fencing import FenceBroker, waiting_for_operator
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.effective import BrokerSettingsInEffect
from penstock.metadata.framing import FrameReader
from penstock.metadata.image.difference import difference
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.loader import Loader
from penstock.metadata.records import MetadataRecord
from penstock.metadata.snapshot import image_records
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, TopicId, random_id
from penstock.model.limit import DECISION_RECORDS_MAX, REPLICAS_MAX
from penstock.model.offset import Offset, SnapshotId
from penstock.model.settings.broker import BrokerSettings
from penstock.raft.effects import Became
from penstock.wire.definition import Message
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.wire.messages.create_topics import CreateTopicsRequest
from penstock.world.ports import World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

Publish = Callable[[Delta, Image], None]
WAITING_SAID_MAX = 10  # partitions, one line each
NOT_ACTIVE = "this controller is not the active one"
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
        first_records: Sequence[MetadataRecord] | None = None,
    ) -> None:
        """`first_records` are those of a new cluster, if formatting has left some."""
        self._world = world
        self._member = member
        self._node_id = member.key.node_id
        self._settings = settings
        self._in_effect = BrokerSettingsInEffect(settings, self._node_id)
        self._publish = publish
        self._first_records = first_records
        self._journal = MetadataJournal(
            log=log,
            disk=world.disk,
            clock=world.clock,
            node_id=self._node_id,
            voters=member.voters.node_ids,
            static_voters=not member.stored_voters,
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
            member=member,
        )
        self._state = ControllerState()
        self._host: Host[MetadataRecord, Outcome] | None = None  # while this node is active
        self._elected = False  # just now: the host is still to be made
        self._is_watching = False
        self._publish_from: Offset | None = None  # None: the broker is not to be told yet
        self._has_published = False
        self._changes = asyncio.Event()  # replaced when it is set
        self._sooner_deadline = asyncio.Event()
        self._expiry_ms: int | None = None  # when the next look at deadlines is due
        self.watch = BrokerWatch(
            own_id=self._node_id,
            session_timeout_ms=settings.broker_session_timeout_ms,
            world=world,
            brokers=lambda: self._state.brokers,
            fence=self._fence,
        )
        self._balance = LeaderBalance(
            interval_s=settings.replication.leader_imbalance_check_interval_seconds,
            is_due=lambda: self.is_active and any(self._state.imbalanced()),
            balance=lambda: self.ask(BalanceLeaders()),
        )

    @property
    def image(self) -> Image:
        """The cluster as far as it is committed and known here."""
        return self._loader.image

    @property
    def leader_id(self) -> NodeId | None:
        """The node that leads the quorum, as far as this one knows."""
        return self.quorum.replica.leader_id

    def is_own(self, node_id: NodeId) -> bool:
        return node_id == self._node_id

    @property
    def has_published(self) -> bool:
        return self._has_published

    @property
    def is_active(self) -> bool:
        """Whether this node decides: it leads the quorum, and all that its log had is committed."""
        return self._host is not None and self._host.is_open

    @property
    def is_open(self) -> bool:
        return self._driver is not None

    @property
    def quorum(self) -> QuorumDriver:
        assert self._driver is not None, "`open` comes first"
        return self._driver

    def open(self) -> None:
        """Reads snapshot and log, and starts the replica. The quorum's one voter is active, and has
        published all that is in the log, when this returns.
        """
        if self._member.is_alone:
            self._publish_from = Offset(0)
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

    def publish_from(self, offset: Offset) -> None:
        """Once the image has come so far, the broker is told of it, and of each one after it. An
        earlier one would be too old: what it does not know of looks like left over from a topic
        that was deleted.
        """
        self._publish_from = offset
        self._publish_first()

    @property
    def next_change(self) -> asyncio.Event:
        """Set when the image, the leader or whether this controller is active has changed."""
        return self._changes

    async def change(self) -> None:
        """Waits for the next change."""
        await self._changes.wait()

    async def run(self, peers: Peers | None = None) -> None:
        """Keeps the quorum and its time until cancelled. A failed sync ends it, and with it the
        node.
        """
        assert self._driver is not None, "`open` comes first"
        async with TaskGroup() as tasks:
            tasks.start(self._driver.run(peers))
            tasks.start(self._keep_expiring())
            tasks.start(self._snapshotting.run())
            tasks.start(self.watch.run())
            if self._settings.replication.auto_leader_rebalance_enable:
                tasks.start(self._balance.run())

    async def ask(
        self,
        request: ControllerRequest,
        *,
        wait_ms_max: int = ANSWER_WAIT_MS_MAX,
        connection: Hashable = None,
    ) -> Any:
        """See ControllerLink, whose overloads give the reply's type. NOT_CONTROLLER, with nothing
        done, unless this is the active controller. `connection` is that of the broker that asks,
        if it is another node's.
        """
        answered: asyncio.Future[Outcome | NotDone] = asyncio.get_running_loop().create_future()

        def answer(outcome: Outcome | NotDone) -> None:
            if not answered.done():
                answered.set_result(outcome)

        deadline_ms = self._world.clock.monotonic_ms() + wait_ms_max
        self._submit(request, connection, deadline_ms=deadline_ms, answer=answer)
        if self._expiry_ms is None or deadline_ms < self._expiry_ms:
            self._sooner_deadline.set()
        outcome = await answered
        if isinstance(outcome, NotDone):
            raise RequestError(_code(outcome), outcome.value)
        if isinstance(outcome, RequestError):
            raise outcome
        return outcome

    async def forward(
        self, request: Message, reply_type: type[AnyReply], *, wait_ms_max: int = ANSWER_WAIT_MS_MAX
    ) -> AnyReply:
        """See ControllerLink: this is where others forward to."""
        raise RequestError(ErrorCode.NOT_CONTROLLER, NOT_ACTIVE)

    async def close(self) -> None:
        """Whoever still waits is told that this controller has gone, and the other voters are told
        to elect another one. The log is its owner's.
        """
        self._end_leading()
        if self._driver is not None and not self._member.is_alone:
            await self._driver.resign_for_good()

    # The quorum

    def _became(self, became: Became) -> None:
        logger.info(
            "quorum role=%s epoch=%d leader=%s",
            became.role, became.epoch, "none" if became.leader_id is None else became.leader_id,
        )  # fmt: skip
        self._end_leading()
        self._elected = became.role == LEADER
        self._note_change()

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
            first = self._first_records
            if first is None:
                in_sync_min = self._settings.min_insync_replicas
                first = bootstrap_records(min_insync_replicas=in_sync_min)
            journal.append(first)
        for entry in journal.tail[len(entries) :]:
            host.replay(frames.read(entry.records), next_offset=entry.next_offset)
        assert not frames.is_open
        host.opened()
        self._host = host
        if journal.end_offset > end_offset:
            driver.appended()
        else:
            self._begin_watching()

    def _begin_watching(self) -> None:
        """Once, when this controller takes requests: brokers have a session from now on."""
        if self.is_active and not self._is_watching:
            self._is_watching = True
            self.watch.begin()
            self._note_change()

    def _end_leading(self) -> None:
        host, self._host = self._host, None
        if self._is_watching:
            self._is_watching = False
            self.watch.end()
        if host is not None:
            host.lose_leadership()

    def _submit(
        self,
        request: ControllerRequest,
        connection: Hashable,
        *,
        deadline_ms: int,
        answer: Callable[[Outcome | NotDone], None],
    ) -> None:
        driver = self._driver
        if self._host is not None and driver is not None:
            # A leader that was paused may have lost its quorum meanwhile: that comes first.
            driver.tick()
            self.watch.note_pause()
        host = self._host
        if host is None or driver is None:
            return answer(RequestError(ErrorCode.NOT_CONTROLLER, NOT_ACTIVE))
        end_offset = self._journal.end_offset
        fenced_before = _fenced_sender(self._state, request)
        accepted: list[ControllerReply] = []

        def decided() -> Decision[MetadataRecord, Outcome]:
            decision = self._decide(request)
            if not isinstance(decision.reply, RequestError):
                accepted.append(decision.reply)
                self.watch.note_directories(request)
            return decision

        def answered(outcome: Outcome | NotDone) -> None:
            if isinstance(outcome, NotDone):
                accepted.clear()
            answer(outcome)

        host.submit(decided, deadline_ms=deadline_ms, answer=answered)
        for reply in accepted:
            # Only now: a broker whose fencing could not be stored keeps its session, and is fenced
            # when there is room again.
            last_offset = self._journal.end_offset - 1
            self.watch.note(request, reply, connection=connection, last_offset=last_offset)
            if fenced_before is not None and not self._state.brokers[fenced_before].fenced:
                self._say_what_waits(fenced_before)
        if self._journal.end_offset > end_offset:
            driver.appended()
        return None

    def _say_what_waits(self, node_id: NodeId) -> None:
        """A broker was unfenced, and some of its partitions still have no leader."""
        waiting = waiting_for_operator(self._state, node_id)
        for place in waiting[:WAITING_SAID_MAX]:
            name = self._state.topics_by_id[place.topic_id].name
            logger.warning(
                "partition=%s-%d leader=none broker=%d has come back without the log directory in"
                " which it led last; if that is lost: kafka-leader-election --election-type"
                " unclean --topic %s --partition %d",
                name, place.partition, node_id, name, place.partition,
            )  # fmt: skip
        if len(waiting) > WAITING_SAID_MAX:
            logger.warning("partitions=%d leader=none broker=%d", len(waiting), node_id)

    def _fence(self, node_id: NodeId, broker_epoch: int) -> None:
        self._submit(
            FenceBroker(node_id=node_id, broker_epoch=broker_epoch),
            None,
            deadline_ms=self._world.clock.monotonic_ms() + ANSWER_WAIT_MS_MAX,
            answer=_unheard,  # if it is not committed, the next controller fences
        )

    def _commit(self, offset: Offset) -> None:
        """Kept for good from here on: first this broker learns of it, then those who asked."""
        entries = self._journal.committed(offset)
        if entries:
            delta, image = self._loader.load(
                chain.from_iterable(entry.records for entry in entries),
                next_offset=entries[-1].next_offset,
                epoch=entries[-1].epoch,
            )
            self._journal.in_image(image.offset)
            self._tell(delta, image)
            self._snapshotting.note(entries)
        if self._host is not None:
            # A frame that is committed in part holds back what came before it in this step, too.
            self._host.advance(self.image.offset)
            self._begin_watching()

    def _tell(self, delta: Delta, image: Image) -> None:
        """A new image: the broker follows it, if it has begun to."""
        if self._has_published:
            self._publish(delta, image)
        else:
            self._publish_first()
        self._note_change()

    def _publish_first(self) -> None:
        """All that is known is new to the broker, that of a snapshot too."""
        if self._has_published or self._publish_from is None:
            return
        if self.image.offset >= self._publish_from and self.image.offset > 0:
            self._has_published = True
            self._publish(difference(Image(), self.image), self.image)
            self._note_change()

    def _note_change(self) -> None:
        changes, self._changes = self._changes, asyncio.Event()
        changes.set()

    def _install(self, snapshot: SnapshotId) -> None:
        """A snapshot of the leader took the place of the log: this broker learns what is in it."""
        loader = Loader()
        records = self._journal.snapshot_records(snapshot)
        _, image = loader.load(records, next_offset=snapshot.offset, epoch=snapshot.epoch)
        before, self._loader = self._loader.image, loader
        self._snapshotting.installed(snapshot)
        self._tell(difference(before, image), image)

    def _decide(self, request: ControllerRequest) -> Decision[MetadataRecord, Outcome]:
        context = DecisionContext(
            state=self._state,
            node_id=self._node_id,
            settings=self._in_effect.in_metadata(self._state),
            next_offset=self._journal.end_offset,
            fresh_ids=self._fresh_ids(request),
            replicas_max=REPLICAS_MAX,
            sessions=self.watch.sessions,
            now_ms=self._world.clock.monotonic_ms(),
            cluster_id=self._member.cluster_id,
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
            fresh = TopicId(random_id(self._world.entropy.random_bytes))
            if fresh not in self._state.topics_by_id:
                ids[fresh] = None
        return list(ids)

    async def _keep_expiring(self) -> None:
        while True:
            now_ms = self._world.clock.monotonic_ms()
            if self._host is not None:
                self.quorum.tick()
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


def _fenced_sender(state: ControllerState, request: ControllerRequest) -> NodeId | None:
    """The broker whose heartbeat this is, if it is fenced."""
    if not isinstance(request, BrokerHeartbeatRequest):
        return None
    broker = state.brokers.get(NodeId(request.broker_id))
    return None if broker is None or not broker.fenced else broker.node_id


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


def _unheard(outcome: Outcome | NotDone) -> None:
    """Nobody waits for the answer."""


def _no_effects(effect: object) -> None:
    raise AssertionError(f"the controller's decisions have no effects: {effect!r}")


LEADER = "leader"  # as roles name themselves
