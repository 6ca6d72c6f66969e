"""Whether the leader of the quorum has the same fixed voters as this node.

With `kraft.version` 0 each node has the voters from its own settings, and nothing keeps two nodes
from having different ones: then two majorities could share no node. The leader names its voters in
the first record of its epoch, so a voter finds out before it has stored anything of that epoch.
With `kraft.version` 1 the voters are in the log, and the same for all.
"""

from collections.abc import Iterable

from penstock.model.error import PenstockError
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch
from penstock.raft.voters import VoterSet
from penstock.records.batch import BatchView
from penstock.records.control import ControlType, control_type
from penstock.records.iterate import records_of
from penstock.wire.codec import decode_exact
from penstock.wire.messages.control_records import LeaderChangeMessage

VERSION = 0  # of the record, as Apache Kafka 4.3 writes it


class DifferentVoters(PenstockError):
    """`controller.quorum.voters` is not the same on all nodes."""


def refuse_other_voters(
    own: VoterSet, batches: Iterable[BatchView], *, epoch: LeaderEpoch, leader_id: NodeId | None
) -> None:
    """DifferentVoters if the leader of this epoch begins it with others. Records of older epochs do
    not count: voters may have been changed on all nodes since.
    """
    for batch in batches:
        if not batch.is_control or batch.leader_epoch != epoch:
            continue
        for record in records_of(batch):
            if control_type(record) is not ControlType.LEADER_CHANGE:
                continue
            value = memoryview(bytes(record.value or b""))
            message = decode_exact(LeaderChangeMessage, VERSION, value)
            theirs = sorted(voter.voter_id for voter in message.voters)
            if theirs != list(own.node_ids):
                raise DifferentVoters(
                    f"controller.quorum.voters names {_listed(own.node_ids)} here and"
                    f" {_listed(theirs)} on node {leader_id}, which leads the quorum: it must be"
                    " the same on all nodes"
                )


def unknown_leader(own: VoterSet, leader_id: NodeId) -> DifferentVoters:
    """The leader is no voter that this node knows, nor its address."""
    return DifferentVoters(
        f"controller.quorum.voters names {_listed(own.node_ids)} here, and not node {leader_id},"
        " which leads the quorum: it must be the same on all nodes"
    )


def _listed(node_ids: Iterable[int]) -> str:
    return ", ".join(map(str, node_ids))
