"""RemoveRaftVoter: a voter of the quorum becomes an observer (KIP-853)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, int16, int32, nullable, prose, string, uuid


class RemoveRaftVoterRequest(Message, key=ApiKey.REMOVE_RAFT_VOTER, versions="0", flexible_from=0):
    cluster_id: str | None = nullable(string(), default=None)
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()


class RemoveRaftVoterResponse(Message, key=ApiKey.REMOVE_RAFT_VOTER, versions="0", flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()
