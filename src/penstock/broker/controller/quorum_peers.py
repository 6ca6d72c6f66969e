"""The other replicas of the metadata log, by their connections and in the protocol's form."""

import logging
from collections.abc import Callable
from typing import assert_never

from penstock.broker.controller.links import AnyReply, Lane, Links, NodeDown
from penstock.broker.controller.quorum_driver import QuorumDriver, QuorumMember, Unanswered
from penstock.broker.controller.voter_agreement import (
    NotFollowed,
    refuse_other_voters,
    unknown_here,
    unknown_leader,
)
from penstock.client.network.errors import ClientError
from penstock.model.error import PenstockError
from penstock.model.identity import NodeId
from penstock.model.limit import METADATA_FETCH_BYTES_MAX
from penstock.model.offset import LeaderEpoch
from penstock.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchReply,
    FetchRequest,
    FetchSnapshotRequest,
    Refused,
    Reply,
    Request,
    VoteRequest,
)
from penstock.raft.voters import VoterSet
from penstock.raft.wire_form import begin_epoch, end_epoch, fetch, fetch_snapshot, vote
from penstock.raft.wire_form.envelope import OfAnotherCluster, UnusableReply
from penstock.records.batch import whole_batches
from penstock.wire.definition import Message
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from penstock.wire.messages.end_quorum_epoch import EndQuorumEpochResponse
from penstock.wire.messages.fetch import FetchResponse
from penstock.wire.messages.fetch_snapshot import FetchSnapshotResponse
from penstock.wire.messages.vote import VoteResponse
from penstock.world.ports import Address

logger = logging.getLogger(__name__)

STRANGERS_MAX = 100  # that are logged


class ForeignQuorum(PenstockError):
    """The voters belong to another cluster than this node."""


class QuorumPeers:
    """`Peers` of a driver. Fetches have a lane of their own: votes do not wait behind them."""

    def __init__(
        self, *, links: Links, member: QuorumMember, driver: Callable[[], QuorumDriver]
    ) -> None:
        self._links = links
        self._driver = driver
        self._member = member
        self._foreign: set[NodeId] = set()  # voters that say that they are of another cluster
        self._has_reply = False  # of a voter of this cluster
        self._disowning: set[NodeId] = set()  # voters that say that this node is none
        self._strangers: set[NodeId] = set()  # that were refused, and logged
        self._not_followed: LeaderEpoch | None = None  # the last epoch of which that was logged

    async def ask(self, to: NodeId, request: Request) -> Reply:
        """Unanswered when there is no reply in time, or none that makes sense. ForeignQuorum when
        it is this node that belongs to another cluster than the voters, DifferentVoters when it
        has other ones in its settings than the leader.
        """
        voters = self._voters
        if self._has_fixed_voters and not self._has_reply and to not in voters.keys:
            raise unknown_leader(voters, to)
        try:
            reply = await self._reply_to(to, request)
        except (ClientError, UnusableReply) as error:
            if isinstance(error, OfAnotherCluster):
                self._note_foreign(to)
            raise Unanswered(str(error), is_down=isinstance(error, NodeDown)) from error
        self._foreign.discard(to)
        if reply.error is Refused.INCONSISTENT_VOTER_SET:
            self._note_disowning(to)
        else:
            self._disowning.discard(to)
            self._has_reply = True
        return reply

    async def refused_stranger(self, request: Request) -> None:
        """A node that stands or leads was refused: it is no voter here. It is logged once.
        DifferentVoters when it leads, and none of this node's own voters has ever answered.
        """
        match request:
            case VoteRequest():
                sender = request.candidate.node_id
            case BeginEpochRequest() | EndEpochRequest():
                sender = request.leader_id
            case _:
                return
        voters = self._voters
        if sender not in self._strangers and len(self._strangers) < STRANGERS_MAX:
            self._strangers.add(sender)
            logger.warning(
                "quorum node=%d refused=true it is none of the voters here (%s):"
                " controller.quorum.voters must be the same on all nodes",
                sender, ", ".join(map(str, voters.node_ids)),
            )  # fmt: skip
        if isinstance(request, BeginEpochRequest) and not self._has_reply:
            raise unknown_leader(voters, sender)

    @property
    def _voters(self) -> VoterSet:
        return self._driver().voters

    @property
    def _has_fixed_voters(self) -> bool:
        """Whether this node votes, by the voters of its settings: without directory ids."""
        voter = self._voters.keys.get(self._member.key.node_id)
        return voter is not None and voter.directory_id is None

    def _note_foreign(self, voter: NodeId) -> None:
        """One voter of another cluster is told of once. This node ends if a majority of the voters
        is of another one, and none has ever answered as one of its own.
        """
        if voter in self._foreign:
            return
        self._foreign.add(voter)
        own = self._member.cluster_id
        logger.warning(
            "quorum voter=%d address=%s cluster=another own_cluster_id=%s",
            voter, self._driver().address_of(voter), own,
        )  # fmt: skip
        if not self._has_reply and len(self._foreign) >= self._voters.majority:
            named = ", ".join(
                f"{one}@{self._driver().address_of(one)}" for one in sorted(self._foreign)
            )
            raise ForeignQuorum(
                f"the voters {named} belong to another cluster than this node's directories, which"
                f" are of cluster {own}: name the voters of that cluster, or format this node for"
                " theirs"
            )

    def _note_disowning(self, voter: NodeId) -> None:
        if voter in self._disowning:
            return
        self._disowning.add(voter)
        logger.warning(
            "quorum voter=%d address=%s refuses this node, which is no voter there:"
            " controller.quorum.voters must be the same on all nodes",
            voter, self._driver().address_of(voter),
        )  # fmt: skip
        if len(self._disowning) >= self._voters.majority:
            raise unknown_here(self._voters, sorted(self._disowning))

    def _refuse_other_voters(self, reply: FetchReply) -> None:
        if not self._has_fixed_voters or not reply.runs:
            return
        assert isinstance(reply.records, bytes | bytearray | memoryview)
        batches = whole_batches(memoryview(reply.records))
        try:
            refuse_other_voters(
                self._voters,
                batches,
                epoch=reply.epoch,
                leader_id=reply.leader_id,
                high_watermark=reply.high_watermark,
            )
        except NotFollowed as error:
            if self._not_followed != reply.epoch:
                self._not_followed = reply.epoch
                logger.warning("quorum leader=%s followed=false %s", reply.leader_id, error)
            raise UnusableReply(str(error)) from error
        except MalformedMessage as error:
            raise UnusableReply(f"a leader change is unreadable: {error}") from error

    async def _reply_to(self, to: NodeId, request: Request) -> Reply:
        cluster_id, endpoints = self._member.cluster_id, self._member.endpoints
        bytes_max = METADATA_FETCH_BYTES_MAX
        match request:
            case FetchRequest():
                fetching = fetch.request_to_wire(
                    request, cluster_id=cluster_id, bytes_max=bytes_max
                )
                wait_ms = request.wait_ms_max
                fetched = await self._ask(to, fetching, FetchResponse, Lane.METADATA, wait_ms)
                reply = _checked(request, fetch.reply_from_wire(fetched))
                self._refuse_other_voters(reply)
                self._note_leader(to, fetched, reply)
                return reply
            case FetchSnapshotRequest():
                part = fetch_snapshot.request_to_wire(
                    request, cluster_id=cluster_id, bytes_max=bytes_max
                )
                got = await self._ask(to, part, FetchSnapshotResponse, Lane.METADATA)
                return fetch_snapshot.reply_from_wire(got)
            case VoteRequest():
                asked = vote.request_to_wire(request, cluster_id=cluster_id)
                return vote.reply_from_wire(await self._ask(to, asked, VoteResponse))
            case BeginEpochRequest():
                begin = begin_epoch.request_to_wire(
                    request, cluster_id=cluster_id, endpoints=endpoints
                )
                begun = await self._ask(to, begin, BeginQuorumEpochResponse)
                return begin_epoch.reply_from_wire(begun)
            case EndEpochRequest():
                end = end_epoch.request_to_wire(request, cluster_id=cluster_id, endpoints=endpoints)
                ended = await self._ask(to, end, EndQuorumEpochResponse)
                return end_epoch.reply_from_wire(ended)
            case _:
                assert_never(request)

    def _note_leader(self, to: NodeId, fetched: FetchResponse, reply: FetchReply) -> None:
        """Where the leader listens, if the reply says it, or the leader was asked itself."""
        leader_id, driver = reply.leader_id, self._driver()
        if leader_id is None:
            return
        for endpoint in fetched.node_endpoints:
            if endpoint.node_id == leader_id:
                address = Address(host=endpoint.host, port=endpoint.port)
                return driver.heard_address(leader_id, address)
        asked = driver.address_of(to)
        if reply.error is None and asked is not None and driver.address_of(leader_id) is None:
            driver.heard_address(leader_id, asked)

    async def _ask(
        self,
        to: NodeId,
        message: Message,
        reply_type: type[AnyReply],
        lane: Lane = Lane.ELECTIONS,
        wait_ms: int = 0,
    ) -> AnyReply:
        """`wait_ms` is how long the other may wait before it replies."""
        timeout_ms = self._member.request_timeout_ms + wait_ms
        return await self._links.ask(to, message, reply_type, lane=lane, timeout_ms=timeout_ms)


def _checked(request: FetchRequest, reply: FetchReply) -> FetchReply:
    """Records begin where they were asked for, or are not taken."""
    if reply.runs:
        assert isinstance(reply.records, bytes | bytearray | memoryview)
        base_offset = int.from_bytes(memoryview(reply.records)[:8])
        if base_offset != request.log_end.offset:
            raise UnusableReply(
                f"asked for records from {request.log_end.offset}, got {base_offset}"
            )
    return reply
