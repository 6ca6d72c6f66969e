"""This node's place in the quorum: who votes, where they listen, and whether it is one of them."""

import logging
from collections.abc import Mapping

from penstock.broker.controller.quorum_driver import QuorumMember
from penstock.model.error import PenstockError
from penstock.model.identity import NodeId, id_text
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.cluster_node import ClusterNode, QuorumTimes
from penstock.model.settings.listener import DirectoryVoter, HostPort
from penstock.node.formatting import METADATA_LOG
from penstock.node.stored_voters import read_voters
from penstock.raft.times import Times
from penstock.raft.voters import ReplicaKey, VoterSet
from penstock.wire.messages.endpoints import NamedEndpoint
from penstock.world.ports import Address, Disk

logger = logging.getLogger(__name__)

FETCH_WAIT_MS_MAX = 500  # as in Apache Kafka


class VotersUnknown(PenstockError):
    """Neither the settings nor the metadata directory say who votes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumPlace:
    member: QuorumMember

    @property
    def addresses(self) -> Mapping[NodeId, Address]:
        """Of the voters' controller listeners."""
        return self.member.addresses

    def __str__(self) -> str:
        """The voters, for people."""
        return ", ".join(
            f"{node_id}@{address}" for node_id, address in sorted(self.addresses.items())
        )


def quorum_place(
    node: ClusterNode,
    *,
    disk: Disk,
    metadata_directory: str,
    directory_id: bytes,
    cluster_id: str,
    endpoints: tuple[NamedEndpoint, ...],
) -> QuorumPlace:
    """VotersUnknown when only a bootstrap server is given, and the directory names no voters."""
    stored = _stored(node, disk, metadata_directory) if node.has_dynamic_voters else ()
    addresses: dict[NodeId, HostPort]
    if stored:
        _warn_of_lost_vote(stored, ReplicaKey(node.node_id, directory_id))
        voters = VoterSet(ReplicaKey(voter.node_id, voter.directory_id) for voter in stored)
        addresses = {voter.node_id: HostPort(host=voter.host, port=voter.port) for voter in stored}
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
            stored_voters=stored,
            listener=node.quorum.listener or "",
            addresses={
                voter: Address(host=address.host, port=address.port)
                for voter, address in addresses.items()
            },
        ),
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


def _stored(node: ClusterNode, disk: Disk, metadata_directory: str) -> tuple[DirectoryVoter, ...]:
    assert node.quorum.listener is not None
    stored = read_voters(disk, metadata_directory, listener=node.quorum.listener)
    if stored is None:
        raise VotersUnknown(
            f"{metadata_directory} names no voters, and controller.quorum.bootstrap.servers alone"
            " does not say who they are yet. For a new cluster, set controller.quorum.voters, or"
            " format the directory with --initial-controllers. If the node has run before, the"
            f" snapshots in {metadata_directory}/{METADATA_LOG} are lost: restore them from a copy"
        )
    return stored
