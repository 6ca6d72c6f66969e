"""Vote: a replica that wants to lead asks a voter of the quorum for its vote (KIP-595).

Version 1 names both replicas by directory id as well (KIP-853). Version 2 can ask without
consequences whether the vote would be granted (KIP-996); nothing is persisted for a pre-vote.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    nullable,
    string,
    tagged,
    uuid,
)
from penstock.wire.messages.endpoints import NodeEndpoint


class VotePartition(Struct):
    partition_index: int = int32()
    replica_epoch: int = int32()  # of the sender: in a vote its new epoch
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("1+")
    voter_directory_id: bytes = uuid("1+")  # of the receiver
    last_offset_epoch: int = int32()
    last_offset: int = int64()  # the end of the sender's log
    pre_vote: bool = boolean("2+")


class VoteTopic(Struct):
    topic_name: str = string()
    partitions: list[VotePartition] = array(VotePartition)


class VoteRequest(Message, key=ApiKey.VOTE, versions="0-2", flexible_from=0):
    cluster_id: str | None = nullable(string(), default=None)
    voter_id: int = int32("1+", default=-1)  # of the receiver
    topics: list[VoteTopic] = array(VoteTopic)


class VotePartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()  # -1 where the leader is not known
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


class VoteTopicResult(Struct):
    topic_name: str = string()
    partitions: list[VotePartitionResult] = array(VotePartitionResult)


class VoteResponse(Message, key=ApiKey.VOTE, versions="0-2", flexible_from=0):
    error_code: int = int16()
    topics: list[VoteTopicResult] = array(VoteTopicResult)
    node_endpoints: list[NodeEndpoint] = tagged(0, array(NodeEndpoint, "1+"))
