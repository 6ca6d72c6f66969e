"""EndQuorumEpoch, in version 1: successors with their directory ids."""

from collections.abc import Sequence

from penstock.model.identity import METADATA_TOPIC, NodeId
from penstock.model.offset import LeaderEpoch
from penstock.raft.messages import EndEpochReply, EndEpochRequest
from penstock.raft.voters import ReplicaKey
from penstock.raft.wire_form.envelope import (
    PARTITION,
    check_cluster,
    checked_epoch,
    code,
    directory_or_zero,
    id_or_none,
    node_or_none,
    only,
    only_of_reply,
    refused,
    replica_key,
)
from penstock.wire.messages import end_quorum_epoch as wire
from penstock.wire.messages.endpoints import NamedEndpoint


def request_to_wire(
    request: EndEpochRequest, *, cluster_id: str, endpoints: Sequence[NamedEndpoint]
) -> wire.EndQuorumEpochRequest:
    candidates = [
        wire.PreferredCandidate(
            candidate_id=successor.node_id, candidate_directory_id=directory_or_zero(successor)
        )
        for successor in request.successors
    ]
    partition = wire.EndQuorumEpochPartition(
        partition_index=PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=candidates,
    )
    topic = wire.EndQuorumEpochTopic(topic_name=METADATA_TOPIC, partitions=[partition])
    return wire.EndQuorumEpochRequest(
        cluster_id=cluster_id, topics=[topic], leader_endpoints=list(endpoints)
    )


def request_from_wire(message: wire.EndQuorumEpochRequest, *, cluster_id: str) -> EndEpochRequest:
    check_cluster(message.cluster_id, own=cluster_id)
    said = only([(topic.topic_name, topic.partitions) for topic in message.topics])
    successors = [
        replica_key(candidate.candidate_id, candidate.candidate_directory_id)
        for candidate in said.preferred_candidates
    ] or [ReplicaKey(NodeId(node_id), None) for node_id in said.preferred_successors]
    return EndEpochRequest(
        epoch=checked_epoch(said.leader_epoch),
        leader_id=NodeId(said.leader_id),
        successors=tuple(successors),
    )


def reply_to_wire(reply: EndEpochReply) -> wire.EndQuorumEpochResponse:
    result = wire.EndQuorumEpochPartitionResult(
        partition_index=PARTITION,
        error_code=code(reply.error),
        leader_id=id_or_none(reply.leader_id),
        leader_epoch=reply.epoch,
    )
    topic = wire.EndQuorumEpochTopicResult(topic_name=METADATA_TOPIC, partitions=[result])
    return wire.EndQuorumEpochResponse(topics=[topic])


def reply_from_wire(message: wire.EndQuorumEpochResponse) -> EndEpochReply:
    result = only_of_reply(
        message.error_code, [(topic.topic_name, topic.partitions) for topic in message.topics]
    )
    return EndEpochReply(
        epoch=LeaderEpoch(result.leader_epoch),
        leader_id=node_or_none(result.leader_id),
        error=refused(result.error_code),
    )
