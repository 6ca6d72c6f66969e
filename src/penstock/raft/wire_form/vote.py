"""Vote, in version 2: pre-votes and directory ids."""

from penstock.model.identity import METADATA_TOPIC
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.log_ends import LogEnd
from penstock.raft.messages import VoteReply, VoteRequest
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
from penstock.wire.messages import vote as wire


def request_to_wire(request: VoteRequest, *, cluster_id: str) -> wire.VoteRequest:
    partition = wire.VotePartition(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.candidate.node_id,
        replica_directory_id=directory_or_zero(request.candidate),
        voter_directory_id=directory_or_zero(request.voter),
        last_offset_epoch=request.log_end.epoch,
        last_offset=request.log_end.offset,
        pre_vote=request.pre_vote,
    )
    topic = wire.VoteTopic(topic_name=METADATA_TOPIC, partitions=[partition])
    return wire.VoteRequest(cluster_id=cluster_id, voter_id=request.voter.node_id, topics=[topic])


def request_from_wire(
    message: wire.VoteRequest, *, cluster_id: str, receiver_id: int
) -> VoteRequest:
    """MeantForOthers when no replica of this cluster can mean it. Version 0 does not name the
    receiver.
    """
    check_cluster(message.cluster_id, own=cluster_id)
    asked = only([(topic.topic_name, topic.partitions) for topic in message.topics])
    voter_id = receiver_id if message.voter_id < 0 else message.voter_id
    return VoteRequest(
        epoch=checked_epoch(asked.replica_epoch),
        candidate=replica_key(asked.replica_id, asked.replica_directory_id),
        voter=replica_key(voter_id, asked.voter_directory_id),
        log_end=LogEnd(LeaderEpoch(asked.last_offset_epoch), Offset(asked.last_offset)),
        pre_vote=asked.pre_vote,
    )


def reply_to_wire(reply: VoteReply) -> wire.VoteResponse:
    result = wire.VotePartitionResult(
        partition_index=PARTITION,
        error_code=code(reply.error),
        leader_id=id_or_none(reply.leader_id),
        leader_epoch=reply.epoch,
        vote_granted=reply.granted,
    )
    topic = wire.VoteTopicResult(topic_name=METADATA_TOPIC, partitions=[result])
    return wire.VoteResponse(topics=[topic])


def reply_from_wire(message: wire.VoteResponse) -> VoteReply:
    """UnusableReply when it says nothing about the metadata log."""
    result = only_of_reply(
        message.error_code, [(topic.topic_name, topic.partitions) for topic in message.topics]
    )
    return VoteReply(
        epoch=LeaderEpoch(result.leader_epoch),
        leader_id=node_or_none(result.leader_id),
        granted=result.vote_granted,
        error=refused(result.error_code),
    )
