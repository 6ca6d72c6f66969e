"""AddRaftVoter: an observer of the quorum becomes a voter (KIP-853).

Version 1 can ask for the reply before the change is committed.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    Message,
    array,
    boolean,
    int16,
    int32,
    nullable,
    prose,
    string,
    uuid,
)
from penstock.wire.messages.endpoints import NamedEndpoint


class AddRaftVoterRequest(Message, key=ApiKey.ADD_RAFT_VOTER, versions="0-1", flexible_from=0):
    cluster_id: str | None = nullable(string(), default=None)
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[NamedEndpoint] = array(NamedEndpoint)
    ack_when_committed: bool = boolean("1+", default=True)


class AddRaftVoterResponse(Message, key=ApiKey.ADD_RAFT_VOTER, versions="0-1", flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = prose()
