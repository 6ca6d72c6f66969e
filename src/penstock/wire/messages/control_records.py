"""What control records of a quorum's log and of its snapshots say; `key` is the type of the record.

`version` repeats, inside the message, the version it was written in. Apache Kafka 4.3 writes all of
them in version 0, LeaderChangeMessage included.
"""

from penstock.wire.definition import (
    Message,
    Struct,
    array,
    embedded,
    int16,
    int32,
    int64,
    uuid,
)
from penstock.wire.messages.endpoints import NamedEndpoint


class Voter(Struct):
    voter_id: int = int32()
    voter_directory_id: bytes = uuid("1+")


class LeaderChangeMessage(Message, key=2, versions="0-1", flexible_from=0):
    version: int = int16()
    leader_id: int = int32()
    voters: list[Voter] = array(Voter)
    granting_voters: list[Voter] = array(Voter)


class SnapshotHeaderRecord(Message, key=3, versions="0", flexible_from=0):
    version: int = int16()
    last_contained_log_timestamp: int = int64()


class SnapshotFooterRecord(Message, key=4, versions="0", flexible_from=0):
    version: int = int16()


class KRaftVersionRecord(Message, key=5, versions="0", flexible_from=0):
    version: int = int16()
    k_raft_version: int = int16()


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class QuorumVoter(Struct):
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[NamedEndpoint] = array(NamedEndpoint)
    k_raft_version_feature: KRaftVersionFeature = embedded(KRaftVersionFeature)


class VotersRecord(Message, key=6, versions="0", flexible_from=0):
    version: int = int16()
    voters: list[QuorumVoter] = array(QuorumVoter)
