"""This node's replica of the metadata, and the controller while this node is the active one.

Every node has it. What the quorum commits becomes an image of the cluster, which the broker of this
process follows (`publish`). The quorum elects one active controller among its voters. While this
node is it, it decides (`decisions`): a request is journalled, the quorum commits it, the broker
gets a new image (`image_feed`), and only then the replies leave. So who was told of a topic finds
it here, and finds it again after any crash. Snapshots are made (`snapshotting`) beside that.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from penstock.broker.controller.broker_watch import BrokerWatch
from penstock.broker.controller.controller_link import ANSWER_WAIT_MS_MAX, AnyReply, Requester
from penstock.broker.controller.decisions import NOT_ACTIVE, Decisions
from penstock.broker.controller.image_feed import ImageFeed, Publish
from penstock.broker.controller.metadata_journal import MetadataJournal
from penstock.broker.controller.quorum_driver import (
    Listener,
    Peers,
    QuorumDriver,
    QuorumMember,
)
from penstock.broker.controller.snapshotting import Snapshotting
from penstock.log.partition_log import PartitionLog
from penstock.metadata.controller.decide import ControllerRequest
from penstock.metadata.controller.explained import Why
from penstock.metadata.image.image import Image
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.events import QUORUM_ROLE
from penstock.model.identity import NodeId
from penstock.model.offset import Offset, SnapshotId
from penstock.model.settings.broker import BrokerSettings
from penstock.raft.effects import Became
from penstock.security.principal import ANONYMOUS
from penstock.wire.definition import Message
from penstock.world.event_log import tell
from penstock.world.ports import World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

LEADER = "leader"  # as roles name themselves


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
        self._journal = MetadataJournal(
            log=log,
            disk=world.disk,
            clock=world.clock,
            node_id=self._node_id,
            voters=member.voters,
        )
        self._feed = ImageFeed(publish)
        self._decisions = Decisions(
            journal=self._journal,
            feed=self._feed,
            world=world,
            member=member,
            settings=settings,
            first_records=first_records,
        )
        self._driver: QuorumDriver | None = None
        self._snapshotting = Snapshotting(
            journal=self._journal,
            image=lambda: self.image,
            trimmed=lambda snapshot: self.quorum.trimmed(snapshot),
            synced_offset=lambda: self.quorum.replica.synced_offset,
            world=world,
            settings=settings,
            voters_before=lambda offset: self.quorum.replica.voters_before(offset).voters,
        )
        self._elected = False  # just now: it is still to become active

    @property
    def image(self) -> Image:
        """The cluster as far as it is committed and known here."""
        return self._feed.image

    @property
    def leader_id(self) -> NodeId | None:
        """The node that leads the quorum, as far as this one knows."""
        return self.quorum.replica.leader_id

    def is_own(self, node_id: NodeId) -> bool:
        return node_id == self._node_id

    @property
    def has_published(self) -> bool:
        return self._feed.has_published

    @property
    def is_active(self) -> bool:
        """Whether this node decides: it leads the quorum, and all that its log had is committed."""
        return self._decisions.is_active

    @property
    def decides_alone(self) -> bool:
        """Whether this node is active and needs no other voter for what it decides."""
        return self.is_active and self.quorum.is_alone

    def count_elections(self) -> Counter[Why]:
        """What this controller decides from now on, by cause; call it once."""
        counts: Counter[Why] = Counter()
        self._decisions.elections = counts
        return counts

    @property
    def watch(self) -> BrokerWatch:
        """Who of the brokers lives."""
        return self._decisions.watch

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
            self._feed.publish_from(Offset(0))
        recovered = self._journal.recover()
        for damage in recovered.damaged:
            logger.warning("metadata snapshot damaged=true used=false reason=%s", damage)
        if recovered.snapshot is not None:
            self._feed.start_from(recovered.records, recovered.snapshot)
        self._snapshotting.opened()
        self._driver = QuorumDriver(
            member=self._member,
            log=self._journal,
            world=self._world,
            listener=Listener(
                became=self._became,
                committed=self._commit,
                installed=self._install,
                voters_appended=self._decisions.voters_appended,
                settled=self._begin_if_elected,
            ),
        )
        self._driver.start()

    def publish_from(self, offset: Offset) -> None:
        """See `ImageFeed`."""
        self._feed.publish_from(offset)

    @property
    def next_change(self) -> asyncio.Event:
        """Set when the image, the leader or whether this controller is active has changed."""
        return self._feed.next_change

    async def change(self) -> None:
        """Waits for the next change."""
        await self._feed.next_change.wait()

    async def run(self, peers: Peers | None = None) -> None:
        """Keeps the quorum and its time until cancelled. A failed sync ends it, and with it the
        node.
        """
        assert self._driver is not None, "`open` comes first"
        async with TaskGroup() as tasks:
            tasks.start(self._driver.run(peers))
            tasks.start(self._decisions.run())
            tasks.start(self._snapshotting.run())

    async def ask(
        self,
        request: ControllerRequest,
        *,
        wait_ms_max: int = ANSWER_WAIT_MS_MAX,
        requester: Requester | None = None,
        connection: Hashable = None,
    ) -> Any:
        """See ControllerLink, whose overloads give the reply's type. NOT_CONTROLLER, with nothing
        done, unless this is the active controller. `connection` is that of the broker that asks,
        if it is another node's.
        """
        return await self._decisions.ask(
            request,
            wait_ms_max=wait_ms_max,
            connection=connection,
            requester=ANONYMOUS if requester is None else requester.principal,
        )

    async def forward(
        self,
        request: Message,
        reply_type: type[AnyReply],
        *,
        wait_ms_max: int = ANSWER_WAIT_MS_MAX,
        requester: Requester | None = None,
    ) -> AnyReply:
        """See ControllerLink: this is where others forward to."""
        raise RequestError(ErrorCode.NOT_CONTROLLER, NOT_ACTIVE)

    async def close(self) -> None:
        """Whoever still waits is told that this controller has gone, and the other voters are told
        to elect another one. The log is its owner's.
        """
        self._decisions.end()
        if self._driver is not None and not self._driver.is_alone:
            await self._driver.resign_for_good()

    # The quorum

    def _became(self, became: Became) -> None:
        tell(
            logger,
            QUORUM_ROLE,
            role=became.role,
            epoch=became.epoch,
            leader=became.leader_id,
        )
        self._decisions.end()
        self._elected = became.role == LEADER
        self._feed.note_change()

    def _begin_if_elected(self) -> None:
        if self._elected:
            self._elected = False
            self._decisions.begin(self.quorum)

    def _commit(self, offset: Offset) -> None:
        """Kept for good from here on: first this broker learns of it, then those who asked."""
        entries = self._journal.committed(offset)
        if entries:
            self._feed.load(entries)
            self._journal.in_image(self.image.offset)
            self._snapshotting.note(entries)
        # A frame that is committed in part holds back what came before it in this step, too.
        self._decisions.advance(self.image.offset)

    def _install(self, snapshot: SnapshotId) -> None:
        """A snapshot of the leader took the place of the log."""
        records = self._journal.snapshot_records(snapshot)
        self._snapshotting.installed(snapshot)
        self._feed.install(records, snapshot)
