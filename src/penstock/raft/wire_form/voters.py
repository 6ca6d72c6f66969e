"""Voter sets as control records of the metadata log and of its snapshots, and back (KIP-853).

KRaftVersion | Voters: id, directory id, name, host and port of its listeners, kraft.version
"""

from collections.abc import Iterable, Iterator, Sequence

from penstock.model.identity import NodeId
from penstock.model.offset import Offset
from penstock.raft.voter_history import VotersAt
from penstock.raft.voters import ReplicaKey, VoterDetails, VoterEndpoint, VoterSet
from penstock.records.batch import BatchView
from penstock.records.control import ControlType, control_record, control_type
from penstock.records.iterate import records_of
from penstock.records.record import Record
from penstock.wire.codec import decode_exact, encode
from penstock.wire.messages.control_records import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    QuorumVoter,
    VotersRecord,
)
from penstock.wire.messages.endpoints import NamedEndpoint

KRAFT_VERSION_FEATURE = "kraft.version"
KRAFT_VERSION = 1  # voters are in the log, with the ids of their directories
VERSION = 0  # of both records


def version_record(*, timestamp_ms: int) -> Record:
    message = KRaftVersionRecord(version=VERSION, k_raft_version=KRAFT_VERSION)
    value = encode(message, VERSION)
    return control_record(ControlType.KRAFT_VERSION, value, timestamp_ms=timestamp_ms)


def voters_record(voters: VoterSet, *, timestamp_ms: int) -> Record:
    assert voters.keys and not voters.is_fixed, voters
    message = VotersRecord(version=VERSION, voters=[_voter(voters, node) for node in voters.keys])
    value = encode(message, VERSION)
    return control_record(ControlType.KRAFT_VOTERS, value, timestamp_ms=timestamp_ms)


def voters_in(batches: Iterable[BatchView]) -> Iterator[VotersAt]:
    """The sets that batches of the log name. MalformedMessage when one is unreadable."""
    for batch in batches:
        if batch.is_control:
            for slot, record in enumerate(records_of(batch)):
                voters = voters_of(record)
                if voters is not None:
                    yield VotersAt(offset=Offset(batch.base_offset + slot), voters=voters)


def voters_of(record: Record) -> VoterSet | None:
    """The set that a control record names; None if it names none."""
    if control_type(record) is not ControlType.KRAFT_VOTERS:
        return None
    message = decode_exact(VotersRecord, VERSION, memoryview(bytes(record.value or b"")))
    keys: list[ReplicaKey] = []
    details: dict[NodeId, VoterDetails] = {}
    for voter in message.voters:
        node_id = NodeId(voter.voter_id)
        keys.append(ReplicaKey(node_id, bytes(voter.voter_directory_id)))
        details[node_id] = details_of(voter.endpoints, voter.k_raft_version_feature)
    return VoterSet(keys, details)


def details_of(
    endpoints: Sequence[NamedEndpoint], versions: KRaftVersionFeature | None = None
) -> VoterDetails:
    return VoterDetails(
        tuple(VoterEndpoint(one.name, one.host, one.port) for one in endpoints),
        0 if versions is None else versions.min_supported_version,
        KRAFT_VERSION if versions is None else versions.max_supported_version,
    )


def endpoints_of(details: VoterDetails) -> list[NamedEndpoint]:
    return [
        NamedEndpoint(name=name, host=host, port=port) for name, host, port in details.endpoints
    ]


def _voter(voters: VoterSet, node_id: NodeId) -> QuorumVoter:
    directory_id = voters.keys[node_id].directory_id
    assert directory_id is not None, node_id
    details = voters.details_of(node_id)
    return QuorumVoter(
        voter_id=node_id,
        voter_directory_id=directory_id,
        endpoints=endpoints_of(details),
        k_raft_version_feature=KRaftVersionFeature(
            min_supported_version=details.kraft_version_min,
            max_supported_version=details.kraft_version_max,
        ),
    )
