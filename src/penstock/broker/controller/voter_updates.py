"""What a controller does about its own place among the voters (KIP-853).

A voter tells the leader where it listens if the log says something else, and with fixed voters once
an epoch, for the upgrade of kraft.version. With `controller.quorum.auto.join.enable` a controller
that does not vote asks to be added; if the voters name another directory of it, which was lost, it
asks first that this one be removed.
"""

import asyncio
import logging

from penstock.broker.controller.links import Lane, Links
from penstock.broker.controller.local_controller import LocalController
from penstock.broker.controller.quorum_driver import LeadershipLost, QuorumMember
from penstock.client.network.errors import ClientError
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch
from penstock.raft.voters import VoterSet
from penstock.wire.definition import Message
from penstock.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from penstock.wire.messages.control_records import KRaftVersionFeature
from penstock.wire.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from penstock.wire.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

logger = logging.getLogger(__name__)

RETRY_WAIT_S = 1.0
CHANGE_WAIT_MS = 5_000


class VoterUpdates:
    """Keep `run` running on a controller."""

    def __init__(
        self, *, local: LocalController, links: Links, member: QuorumMember, joins: bool
    ) -> None:
        self._local = local
        self._links = links
        self._member = member
        self._joins = joins
        self._updated: LeaderEpoch | None = None  # the last epoch whose leader was told

    async def run(self) -> None:
        while True:
            change = self._local.next_change
            is_done = await self._look()
            try:
                async with asyncio.timeout(None if is_done else RETRY_WAIT_S):
                    await change.wait()
            except TimeoutError:
                continue

    async def _look(self) -> bool:
        """Does what is to be done; False when it is to be tried again."""
        quorum, key = self._local.quorum, self._member.key
        voters, leader_id = quorum.voters, self._local.leader_id
        if leader_id is None or not voters.keys:
            return True
        if voters.includes(key):
            differs = voters.details_of(key.node_id) != self._member.details
            if voters.is_fixed:
                differs = self._updated != quorum.replica.epoch
            if not differs or (voters.is_fixed and quorum.replica.leads):
                return True
            return await (self._update_itself() if quorum.replica.leads else self._tell(leader_id))
        if self._joins and not voters.is_fixed and not quorum.replica.leads:
            return await self._join(leader_id, voters)
        return True

    async def _update_itself(self) -> bool:
        key, details = self._member.key, self._member.details
        try:
            refused = await self._local.quorum.change_voters(
                lambda replica, now_ms: replica.update_voter(key, details, now_ms),
                wait_ms_max=CHANGE_WAIT_MS,
            )
        except (TimeoutError, LeadershipLost):
            return False
        return refused is None

    async def _tell(self, leader_id: NodeId) -> bool:
        epoch, details = self._local.quorum.replica.epoch, self._member.details
        request = UpdateRaftVoterRequest(
            cluster_id=self._member.cluster_id,
            current_leader_epoch=epoch,
            voter_id=self._member.key.node_id,
            voter_directory_id=self._directory_id,
            listeners=list(self._member.endpoints),
            k_raft_version_feature=KRaftVersionFeature(
                min_supported_version=details.kraft_version_min,
                max_supported_version=details.kraft_version_max,
            ),
        )
        if not await self._ask(leader_id, request, UpdateRaftVoterResponse):
            return False
        self._updated = epoch
        return True

    async def _join(self, leader_id: NodeId, voters: VoterSet) -> bool:
        own = self._member.key.node_id
        former = voters.keys.get(own)
        if former is not None:
            assert former.directory_id is not None
            removal = RemoveRaftVoterRequest(
                cluster_id=self._member.cluster_id,
                voter_id=own,
                voter_directory_id=former.directory_id,
            )
            await self._ask(leader_id, removal, RemoveRaftVoterResponse)
            return False
        addition = AddRaftVoterRequest(
            cluster_id=self._member.cluster_id,
            timeout_ms=CHANGE_WAIT_MS,
            voter_id=own,
            voter_directory_id=self._directory_id,
            listeners=list(self._member.endpoints),
            ack_when_committed=False,  # its own fetch may be what commits it
        )
        return await self._ask(leader_id, addition, AddRaftVoterResponse)

    @property
    def _directory_id(self) -> bytes:
        directory_id = self._member.key.directory_id
        assert directory_id is not None
        return directory_id

    async def _ask(self, leader_id: NodeId, request: Message, reply_type: type[Message]) -> bool:
        try:
            reply = await self._links.ask(
                leader_id,
                request,
                reply_type,
                lane=Lane.FORWARDING,
                timeout_ms=self._member.request_timeout_ms + CHANGE_WAIT_MS,
            )
        except ClientError as error:
            logger.debug("voter request=%s failed=%s", type(request).__name__, error)
            return False
        code: int = getattr(reply, "error_code", 0)
        if code != 0:
            logger.debug("voter request=%s refused=%d", type(request).__name__, code)
        return code == 0
