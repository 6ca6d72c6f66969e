"""What this controller decides while it is the active one, from its election to its end.

A request is decided, journalled and applied in one step (`machine/host`); its reply is held until
the quorum has committed its records and this node's image shows them (`advance`). Brokers that are
gone are fenced (`broker_watch`).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, assert_never

from penstock.broker.controller.broker_watch import BrokerWatch
from penstock.broker.controller.change_log import count_elections, log_decided
from penstock.broker.controller.change_log import decided as told_of
from penstock.broker.controller.controller_link import ANSWER_WAIT_MS_MAX
from penstock.broker.controller.image_feed import ImageFeed
from penstock.broker.controller.leader_balance import LeaderBalance
from penstock.broker.controller.metadata_journal import MetadataJournal
from penstock.broker.controller.quorum_driver import QuorumDriver, QuorumMember
from penstock.broker.controller.token_expiry import TokenExpiry
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
from penstock.metadata.controller.delegation_tokens import RemoveExpiredTokens
from penstock.metadata.controller.elections import BalanceLeaders
from penstock.metadata.controller.explained import Why
from penstock.metadata.controller.fencing import FenceBrokers, GoneBroker, waiting_for_operator
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.effective import BrokerSettingsInEffect
from penstock.metadata.framing import FrameReader
from penstock.metadata.image.topic import LOST_DIRECTORY
from penstock.metadata.records import MetadataRecord
from penstock.metadata.snapshot import image_records
from penstock.model.error import ErrorCode, RequestError
from penstock.model.events import CONTROLLER_ACTIVE
from penstock.model.identity import NodeId, TopicId, id_text, random_id
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.model.offset import Offset
from penstock.model.settings.broker import BrokerSettings
from penstock.security.acl.entry import AclId
from penstock.security.principal import ANONYMOUS, Principal
from penstock.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.wire.messages.create_acls import CreateAclsRequest
from penstock.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from penstock.wire.messages.create_topics import CreateTopicsRequest
from penstock.world.event_log import tell
from penstock.world.ports import World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

WAITING_SAID_MAX = 10  # partitions, one line each
# A refusal of the whole request is a reply too: it is held like a read.
Outcome = ControllerReply | RequestError
NOT_ACTIVE = "this controller is not the active one"


class Decisions:
    """`begin` and `end` with each election of this node; keep `run` running."""

    def __init__(
        self,
        *,
        journal: MetadataJournal,
        feed: ImageFeed,
        world: World,
        member: QuorumMember,
        settings: BrokerSettings,
        first_records: Sequence[MetadataRecord] | None,
    ) -> None:
        self._journal = journal
        self._feed = feed
        self._world = world
        self._member = member
        self._node_id = member.key.node_id
        self._settings = settings
        self._in_effect = BrokerSettingsInEffect(settings, self._node_id)
        self._first_records = first_records
        self._driver: QuorumDriver | None = None
        self._state = ControllerState()
        self._host: Host[MetadataRecord, Outcome] | None = None  # while this node is active
        self._is_watching = False
        self.elections: Counter[Why] | None = None  # counted where metrics are told
        self._sooner_deadline = asyncio.Event()
        self._expiry_ms: int | None = None  # when the next look at deadlines is due
        self.watch = BrokerWatch(
            own_id=self._node_id,
            session_timeout_ms=settings.broker_session_timeout_ms,
            heartbeat_interval_ms=settings.broker_heartbeat_interval_ms,
            world=world,
            brokers=lambda: self._state.brokers,
            fence=self._fence,
        )
        self._balance = LeaderBalance(
            interval_s=settings.replication.leader_imbalance_check_interval_seconds,
            is_due=lambda: self.is_active and any(self._state.imbalanced()),
            balance=lambda: self.ask(BalanceLeaders()),
        )
        tokens = settings.delegation_tokens
        self._token_expiry = TokenExpiry(
            interval_ms=tokens.delegation_token_expiry_check_interval_ms,
            is_due=lambda: self.is_active and bool(self._state.delegation_tokens),
            remove=lambda: self.ask(RemoveExpiredTokens()),
        )

    @property
    def is_active(self) -> bool:
        """Whether this node decides: it leads the quorum, and all that its log had is committed."""
        return self._host is not None and self._host.is_open

    def begin(self, driver: QuorumDriver) -> None:
        """The leader-change record is in the log: this controller becomes active. Its state is
        built from what is committed and what the log has beyond that; it decides nothing before
        all of it is committed in its own epoch.
        """
        assert self._host is None, "it ends before it begins again"
        self._driver = driver
        journal = self._journal
        self._state = ControllerState()
        for record in image_records(self._feed.image):
            self._state.apply(record)
        host: Host[MetadataRecord, Outcome] = Host(
            journal=journal,
            machine=self._state,
            watermark=self._feed.image.offset,
            carry_out=self._carry_out,
        )
        frames = FrameReader()
        entries = journal.tail
        for entry in entries:
            host.replay(frames.read(entry.records), next_offset=entry.next_offset)
        end_offset = journal.end_offset
        if frames.is_open:
            journal.abort_frame()
        if not self._feed.image.features and not any(entry.records for entry in entries):
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

    def end(self) -> None:
        """This node leads no more. Whoever still waits is told so."""
        host, self._host = self._host, None
        if self._is_watching:
            self._is_watching = False
            self.watch.end()
        if host is not None:
            host.lose_leadership()

    def voters_appended(self) -> None:
        """The quorum has appended a record of its own."""
        if self._host is not None:
            self._host.passed(self._journal.end_offset)

    def advance(self, offset: Offset) -> None:
        """This node's image has come so far: replies that wait for it leave."""
        if self._host is not None:
            self._host.advance(offset)
            self._begin_watching()

    async def ask(
        self,
        request: ControllerRequest,
        *,
        wait_ms_max: int = ANSWER_WAIT_MS_MAX,
        connection: Hashable = None,
        requester: Principal = ANONYMOUS,
    ) -> Any:
        """See ControllerLink, whose overloads give the reply's type. NOT_CONTROLLER, with nothing
        done, unless this is the active controller. `connection` is that of the broker that asks,
        if it is another node's; `requester` is the client that it asks for.
        """
        answered: asyncio.Future[Outcome | NotDone] = asyncio.get_running_loop().create_future()

        def answer(outcome: Outcome | NotDone) -> None:
            if not answered.done():
                answered.set_result(outcome)

        deadline_ms = self._world.clock.monotonic_ms() + wait_ms_max
        self._submit(
            request, connection, deadline_ms=deadline_ms, answer=answer, requester=requester
        )
        if self._expiry_ms is None or deadline_ms < self._expiry_ms:
            self._sooner_deadline.set()
        outcome = await answered
        if isinstance(outcome, NotDone):
            raise RequestError(_code(outcome), outcome.value)
        if isinstance(outcome, RequestError):
            raise outcome
        return outcome

    async def run(self) -> None:
        """Answers requests whose time is over, and watches the brokers, until cancelled."""
        async with TaskGroup() as tasks:
            tasks.start(self._keep_expiring())
            tasks.start(self.watch.run())
            if self._settings.replication.auto_leader_rebalance_enable:
                tasks.start(self._balance.run())
            if self._settings.delegation_tokens.secret is not None:
                tasks.start(self._token_expiry.run())

    def _begin_watching(self) -> None:
        """Once, when this controller takes requests: brokers have a session from now on."""
        if self.is_active and not self._is_watching:
            self._is_watching = True
            self.watch.begin()
            tell(
                logger,
                CONTROLLER_ACTIVE,
                node_id=self._node_id,
                epoch=None if self._driver is None else self._driver.replica.epoch,
                brokers=len(self._state.brokers),
            )
            self._feed.note_change()

    def _submit(
        self,
        request: ControllerRequest,
        connection: Hashable,
        *,
        deadline_ms: int,
        answer: Callable[[Outcome | NotDone], None],
        requester: Principal = ANONYMOUS,
    ) -> None:
        driver = self._driver
        if self._host is not None and driver is not None:
            # A leader that was paused may have lost its quorum meanwhile: that comes first.
            driver.tick()
            self.watch.note_pause()
        host = self._host
        if host is None or driver is None:
            return answer(RequestError(ErrorCode.NOT_CONTROLLER, NOT_ACTIVE))
        if _keeps_session(request) and driver.may_be_replaced():
            # The sessions of another controller would not know of it: the broker's lease (ADR 41)
            # must not count from here.
            return answer(RequestError(ErrorCode.REQUEST_TIMED_OUT, "a majority is silent"))
        end_offset = self._journal.end_offset
        fenced_before = _fenced_sender(self._state, request)
        accepted: list[ControllerReply] = []

        def decided() -> Decision[MetadataRecord, Outcome]:
            decision = self._decide(request, requester)
            if not isinstance(decision.reply, RequestError):
                accepted.append(decision.reply)
                self.watch.note_directories(request)
            else:
                self.watch.note_refusal(request, decision.reply.code, connection)
            told = told_of(
                self._state,
                request,
                decision.records,
                is_counted=self.elections is not None,
            )
            return replace(decision, effects=told) if told else decision

        def answered(outcome: Outcome | NotDone) -> None:
            if isinstance(outcome, NotDone):
                accepted.clear()
            answer(outcome)

        host.submit(decided, deadline_ms=deadline_ms, answer=answered)
        for reply in accepted:
            # Only now: a broker whose fencing could not be stored keeps its session, and is fenced
            # when there is room again.
            self.watch.note(
                request,
                reply,
                connection=connection,
                last_offset=self._journal.end_offset - 1,
                has_records=self._journal.end_offset > end_offset,
            )
            if fenced_before is not None and not self._state.brokers[fenced_before].fenced:
                self._say_what_waits(fenced_before)
            if (damaged := _sender_of_damage(request)) is not None:
                self._say_what_waits(damaged)
        if self._journal.end_offset > end_offset:
            driver.appended()
        return None

    def _carry_out(self, effect: object) -> None:
        """The records of a decision are committed."""
        if self.elections is not None:
            count_elections(effect, self.elections)
        log_decided(effect)

    def _say_what_waits(self, node_id: NodeId) -> None:
        """A broker was unfenced, or cannot open logs, and some of its partitions have no leader."""
        waiting = waiting_for_operator(self._state, node_id)
        for place in waiting[:WAITING_SAID_MAX]:
            name = self._state.topics_by_id[place.topic_id].name
            logger.warning(
                "partition=%s-%d leader=none broker=%d does not have the log, or the log directory,"
                " with which it led last; if that is lost: kafka-leader-election --election-type"
                " unclean --topic %s --partition %d",
                name, place.partition, node_id, name, place.partition,
            )  # fmt: skip
        if len(waiting) > WAITING_SAID_MAX:
            logger.warning("partitions=%d leader=none broker=%d", len(waiting), node_id)

    def _fence(self, gone: tuple[GoneBroker, ...]) -> None:
        self._submit(
            FenceBrokers(gone=gone),
            None,
            deadline_ms=self._world.clock.monotonic_ms() + ANSWER_WAIT_MS_MAX,
            answer=_unheard,  # if it is not committed, the next controller fences
        )

    def _decide(
        self, request: ControllerRequest, requester: Principal
    ) -> Decision[MetadataRecord, Outcome]:
        context = DecisionContext(
            state=self._state,
            node_id=self._node_id,
            settings=self._in_effect.in_metadata(self._state),
            next_offset=self._journal.end_offset,
            fresh_ids=self._fresh_ids(request),
            sessions=self.watch.sessions,
            now_ms=self._world.clock.monotonic_ms(),
            wall_ms=self._world.clock.now_ms(),
            cluster_id=self._member.cluster_id,
            requester=requester,
        )
        try:
            return decide(context, request)
        except RequestError as refused:
            return Decision.refuse(refused)

    def _fresh_ids(self, request: ControllerRequest) -> list[TopicId]:
        """Random ids for topics, access control entries or delegation tokens, none of which is
        taken or reserved.
        """
        asked = 0
        if isinstance(request, CreateTopicsRequest):
            asked = len(request.topics)
        elif isinstance(request, CreateAclsRequest):
            asked = len(request.creations)
        elif isinstance(request, CreateDelegationTokenRequest):
            asked = 1
        wanted = min(asked, DECISION_RECORDS_MAX)
        ids: dict[TopicId, None] = {}
        while len(ids) < wanted:
            fresh = TopicId(random_id(self._world.entropy.random_bytes))
            if (
                fresh not in self._state.topics_by_id
                and AclId(fresh) not in self._state.acls
                and id_text(fresh) not in self._state.delegation_tokens
            ):
                ids[fresh] = None
        return list(ids)

    async def _keep_expiring(self) -> None:
        while True:
            now_ms = self._world.clock.monotonic_ms()
            if self._host is not None and self._driver is not None:
                self._driver.tick()
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


def _keeps_session(request: ControllerRequest) -> bool:
    return isinstance(request, BrokerHeartbeatRequest) and not request.want_shut_down


def _fenced_sender(state: ControllerState, request: ControllerRequest) -> NodeId | None:
    """The broker whose heartbeat this is, if it is fenced."""
    if not isinstance(request, BrokerHeartbeatRequest):
        return None
    broker = state.brokers.get(NodeId(request.broker_id))
    return None if broker is None or not broker.fenced else broker.node_id


def _sender_of_damage(request: ControllerRequest) -> NodeId | None:
    """The broker that says with this request that it cannot open some of its logs."""
    if not isinstance(request, AssignReplicasToDirsRequest):
        return None
    is_told = any(directory.id == LOST_DIRECTORY for directory in request.directories)
    return NodeId(request.broker_id) if is_told else None


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
