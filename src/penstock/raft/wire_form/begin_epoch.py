"""BeginQuorumEpoch, in version 1: directory ids."""

from collections.abc import Sequence

from penstock.model.identity import METADATA_TOPIC, NodeId
from penstock.model.offset import LeaderEpoch
from penstock.raft.messages import BeginEpochReply, BeginEpochRequest
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
from penstock.wire.messages import begin_quorum_epoch as wire
from penstock.wire.messages.endpoints import NamedEndpoint


def request_to_wire(
    request: BeginEpochRequest, *, cluster_id: str, endpoints: Sequence[NamedEndpoint]
) -> wire.BeginQuorumEpochRequest:
    partition = wire.BeginQuorumEpochPartition(
        partition_index=PARTITION,
        voter_directory_id=directory_or_zero(request.voter),
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    topic = wire.BeginQuorumEpochTopic(topic_name=METADATA_TOPIC, partitions=[partition])
    return wire.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=request.voter.node_id,
        topics=[topic],
        leader_endpoints=list(endpoints),
    )


def request_from_wire(
    message: wire.BeginQuorumEpochRequest, *, cluster_id: str, receiver_id: int
) -> BeginEpochRequest:
    check_cluster(message.cluster_id, own=cluster_id)
    said = only([(topic.topic_name, topic.partitions) for topic in message.topics])
    voter_id = receiver_id if message.voter_id < 0 else message.voter_id
    return BeginEpochRequest(
        epoch=checked_epoch(said.leader_epoch),
        leader_id=NodeId(said.leader_id),
        voter=replica_key(voter_id, said.voter_directory_id),
    )


def reply_to_wire(reply: BeginEpochReply) -> wire.BeginQuorumEpochResponse:
    result = wire.BeginQuorumEpochPartitionResult(
        partition_index=PARTITION,
        error_code=code(reply.error),
        leader_id=id_or_none(reply.leader_id),
        leader_epoch=reply.epoch,
    )
    topic = wire.BeginQuorumEpochTopicResult(topic_name=METADATA_TOPIC, partitions=[result])
    return wire.BeginQuorumEpochResponse(topics=[topic])


def reply_from_wire(message: wire.BeginQuorumEpochResponse) -> BeginEpochReply:
    result = only_of_reply(
        message.error_code, [(topic.topic_name, topic.partitions) for topic in message.topics]
    )
    return BeginEpochReply(
        epoch=LeaderEpoch(result.leader_epoch),
        leader_id=node_or_none(result.leader_id),
        error=refused(result.error_code),
    )
