"""This node's place in the quorum: who votes, where they listen, and whether it is one of them."""

import logging

from penstock.broker.controller.quorum_driver import QuorumMember
from penstock.model.identity import NodeId, id_text
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.cluster_node import ClusterNode, QuorumTimes
from penstock.model.settings.listener import DirectoryVoter, HostPort
from penstock.node.stored_voters import latest_in_log, read_voters
from penstock.raft.times import Times
from penstock.raft.voters import ReplicaKey, VoterDetails, VoterEndpoint, VoterSet
from penstock.wire.messages.endpoints import NamedEndpoint
from penstock.world.ports import Address, Disk

logger = logging.getLogger(__name__)

FETCH_WAIT_MS_MAX = 500  # as in Apache Kafka


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumPlace:
    member: QuorumMember


def quorum_place(
    node: ClusterNode,
    *,
    disk: Disk,
    metadata_directory: str,
    directory_id: bytes,
    cluster_id: str,
    endpoints: tuple[NamedEndpoint, ...],
) -> QuorumPlace:
    """Where only bootstrap servers are given and the directory names no voters yet, the node asks
    those servers for the leader, and observes until it is added.
    """
    latest = latest_in_log(disk, metadata_directory)
    stored: tuple[DirectoryVoter, ...] = ()
    if node.has_dynamic_voters:
        assert node.quorum.listener is not None
        listener = node.quorum.listener
        stored = read_voters(disk, metadata_directory, listener=listener, latest=latest) or ()
    addresses: dict[NodeId, HostPort]
    if stored:
        _warn_of_lost_vote(stored, ReplicaKey(node.node_id, directory_id))
        voters, addresses = _voter_set(stored, node.quorum.listener or ""), {}
    elif node.has_dynamic_voters:
        voters, addresses = VoterSet(()), {}  # in the log, once it was fetched
    elif node.quorum.static_voters:
        voters = VoterSet(ReplicaKey(voter, None) for voter in node.quorum.static_voters)
        addresses = dict(node.quorum.static_voters)
    else:
        voters, addresses = VoterSet([ReplicaKey(node.node_id, None)]), {}
    return QuorumPlace(
        member=QuorumMember(
            key=ReplicaKey(node.node_id, directory_id),
            cluster_id=cluster_id,
            voters=voters,
            endpoints=endpoints,
            times=times_of(node.quorum.times),
            request_timeout_ms=node.quorum.times.request_timeout_ms,
            latest_voters=latest,
            listener=node.quorum.listener or "",
            addresses={
                voter: Address(host=address.host, port=address.port)
                for voter, address in addresses.items()
            },
            bootstrap=tuple(
                Address(host=server.host, port=server.port)
                for server in node.quorum.bootstrap_servers
            ),
        ),
    )


def _voter_set(stored: tuple[DirectoryVoter, ...], listener: str) -> VoterSet:
    return VoterSet(
        [ReplicaKey(voter.node_id, voter.directory_id) for voter in stored],
        {
            voter.node_id: VoterDetails((VoterEndpoint(listener, voter.host, voter.port),))
            for voter in stored
        },
    )


def _warn_of_lost_vote(stored: tuple[DirectoryVoter, ...], key: ReplicaKey) -> None:
    for voter in stored:
        if voter.node_id == key.node_id and voter.directory_id != key.directory_id:
            assert key.directory_id is not None
            logger.warning(
                "quorum node=%d votes=false directory_id=%s the voters name directory %s for it:"
                " its disk was replaced, or directory.id was changed in meta.properties",
                key.node_id, id_text(key.directory_id), id_text(voter.directory_id),
            )  # fmt: skip


def times_of(times: QuorumTimes) -> Times:
    return Times(
        election_timeout_ms=times.election_timeout_ms,
        fetch_timeout_ms=times.fetch_timeout_ms,
        election_backoff_max_ms=times.election_backoff_max_ms,
        retry_backoff_ms=times.retry_backoff_ms,
        # A follower that waits for news must be heard of again before it is given up.
        fetch_wait_ms_max=min(FETCH_WAIT_MS_MAX, times.fetch_timeout_ms // 2),
    )
