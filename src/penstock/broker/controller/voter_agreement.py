"""Whether the leader of the quorum has the same fixed voters as this node.

With `kraft.version` 0 each node has the voters from its own settings, and nothing keeps two nodes
from having different ones: then two majorities could share no node. With `kraft.version` 1 the
voters are in the log, and the same for all.

A node that stands or leads, but is no voter here, is refused (`raft`). The leader names its voters
in the first record of its epoch, so a voter finds out before it has stored anything of that epoch.
It does not follow a leader with others. That may be the one whose settings are wrong, so this node
ends only when it is likely to be the one: another node has accepted that leader (its record is
committed, and it needed others for that), or a majority of this node's own voters refuse it, or a
leader that is no voter here counts on this node, which none of its own voters has ever answered.
"""

from collections.abc import Iterable

from penstock.model.error import PenstockError
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.voters import VoterSet
from penstock.records.batch import BatchView
from penstock.records.control import ControlType, control_type
from penstock.records.iterate import records_of
from penstock.wire.codec import decode_exact
from penstock.wire.messages.control_records import LeaderChangeMessage

VERSION = 0  # of the record, as Apache Kafka 4.3 writes it


class DifferentVoters(PenstockError):
    """`controller.quorum.voters` is not the same on all nodes."""


class NotFollowed(PenstockError):
    """The leader has other voters in its settings, and may be the only one."""


def refuse_other_voters(
    own: VoterSet,
    batches: Iterable[BatchView],
    *,
    epoch: LeaderEpoch,
    leader_id: NodeId | None,
    high_watermark: Offset,
) -> None:
    """DifferentVoters if the leader of this epoch begins it with others, and another node has
    accepted that; NotFollowed if it may be alone. Records of older epochs do not count: voters may
    have been changed on all nodes since.
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
                reason = (
                    f"controller.quorum.voters names {_listed(own.node_ids)} here and"
                    f" {_listed(theirs)} on node {leader_id}, which leads the quorum: it must be"
                    " the same on all nodes"
                )
                if batch.next_offset <= high_watermark and len(theirs) > 1:
                    raise DifferentVoters(reason)
                raise NotFollowed(reason)


def unknown_leader(own: VoterSet, leader_id: NodeId) -> DifferentVoters:
    """The leader is no voter that this node knows, nor its address."""
    return DifferentVoters(
        f"controller.quorum.voters names {_listed(own.node_ids)} here, and not node {leader_id},"
        " which leads the quorum: it must be the same on all nodes"
    )


def unknown_here(own: VoterSet, refused_by: Iterable[NodeId]) -> DifferentVoters:
    """Voters say that this node is none."""
    return DifferentVoters(
        f"controller.quorum.voters names {_listed(own.node_ids)} here, and not this node on the"
        f" voters {_listed(refused_by)}: it must be the same on all nodes"
    )


def _listed(node_ids: Iterable[int]) -> str:
    return ", ".join(map(str, node_ids))
