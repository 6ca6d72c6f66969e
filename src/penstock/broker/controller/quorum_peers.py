"""The other replicas of the metadata log, by their connections and in the protocol's form."""

from typing import assert_never

from penstock.broker.controller.links import Lane, Links, NodeDown
from penstock.broker.controller.quorum_driver import QuorumMember, Unanswered
from penstock.client.network.errors import ClientError
from penstock.model.identity import NodeId
from penstock.model.limit import METADATA_FETCH_BYTES_MAX
from penstock.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchReply,
    FetchRequest,
    FetchSnapshotRequest,
    Reply,
    Request,
    VoteRequest,
)
from penstock.raft.wire_form import begin_epoch, end_epoch, fetch, fetch_snapshot, vote
from penstock.raft.wire_form.envelope import UnusableReply
from penstock.wire.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from penstock.wire.messages.end_quorum_epoch import EndQuorumEpochResponse
from penstock.wire.messages.fetch import FetchResponse
from penstock.wire.messages.fetch_snapshot import FetchSnapshotResponse
from penstock.wire.messages.vote import VoteResponse


class QuorumPeers:
    """`Peers` of a driver. Fetches have a lane of their own: votes do not wait behind them."""

    def __init__(self, *, links: Links, member: QuorumMember) -> None:
        self._links = links
        self._member = member

    async def ask(self, to: NodeId, request: Request) -> Reply:
        """Unanswered when there is no reply in time, or none that makes sense."""
        try:
            return await self._reply_to(to, request)
        except (ClientError, UnusableReply) as error:
            raise Unanswered(str(error), is_down=isinstance(error, NodeDown)) from error

    async def _reply_to(self, to: NodeId, request: Request) -> Reply:
        links, member = self._links, self._member
        cluster_id = member.cluster_id
        elections, metadata = Lane.ELECTIONS, Lane.METADATA
        timeout_ms = member.request_timeout_ms
        match request:
            case FetchRequest():
                fetched = await links.ask(
                    to,
                    fetch.request_to_wire(
                        request, cluster_id=cluster_id, bytes_max=METADATA_FETCH_BYTES_MAX
                    ),
                    FetchResponse,
                    lane=metadata,
                    timeout_ms=timeout_ms + request.wait_ms_max,
                )
                return _checked(request, fetch.reply_from_wire(fetched))
            case VoteRequest():
                voted = await links.ask(
                    to,
                    vote.request_to_wire(request, cluster_id=cluster_id),
                    VoteResponse,
                    lane=elections,
                    timeout_ms=timeout_ms,
                )
                return vote.reply_from_wire(voted)
            case BeginEpochRequest():
                begun = await links.ask(
                    to,
                    begin_epoch.request_to_wire(
                        request, cluster_id=cluster_id, endpoints=member.endpoints
                    ),
                    BeginQuorumEpochResponse,
                    lane=elections,
                    timeout_ms=timeout_ms,
                )
                return begin_epoch.reply_from_wire(begun)
            case EndEpochRequest():
                ended = await links.ask(
                    to,
                    end_epoch.request_to_wire(
                        request, cluster_id=cluster_id, endpoints=member.endpoints
                    ),
                    EndQuorumEpochResponse,
                    lane=elections,
                    timeout_ms=timeout_ms,
                )
                return end_epoch.reply_from_wire(ended)
            case FetchSnapshotRequest():
                part = await links.ask(
                    to,
                    fetch_snapshot.request_to_wire(
                        request, cluster_id=cluster_id, bytes_max=METADATA_FETCH_BYTES_MAX
                    ),
                    FetchSnapshotResponse,
                    lane=metadata,
                    timeout_ms=timeout_ms,
                )
                return fetch_snapshot.reply_from_wire(part)
            case _:
                assert_never(request)


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
