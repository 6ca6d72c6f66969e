"""UpdateRaftVoter: a voter tells the leader where it listens and which kraft.version it supports
(KIP-853).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    embedded,
    int16,
    int32,
    nullable,
    string,
    tagged_struct,
    uuid,
)
from penstock.wire.messages.control_records import KRaftVersionFeature
from penstock.wire.messages.endpoints import NamedEndpoint


class UpdateRaftVoterRequest(Message, key=ApiKey.UPDATE_RAFT_VOTER, versions="0", flexible_from=0):
    cluster_id: str | None = nullable(string(), default=None)
    current_leader_epoch: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[NamedEndpoint] = array(NamedEndpoint)
    k_raft_version_feature: KRaftVersionFeature = embedded(KRaftVersionFeature)


class QuorumLeader(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    host: str = string()
    port: int = int32()


class UpdateRaftVoterResponse(Message, key=ApiKey.UPDATE_RAFT_VOTER, versions="0", flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    current_leader: QuorumLeader | None = tagged_struct(0, QuorumLeader, "0+")
