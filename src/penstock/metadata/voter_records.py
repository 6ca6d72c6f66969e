"""The voters of `kraft.version` 1 as control records, and back.

They are in the first batch of every snapshot, behind the header: the snapshot at offset 0, which
formatting writes, and each later one, since the older ones are removed. `kraft.version` 0 has none.

    SnapshotHeader | KRaftVersion | Voters: id, directory id, name, host and port of its listeners
"""

from collections.abc import Iterable, Mapping, Sequence

from penstock.model.error import PenstockError
from penstock.model.identity import NodeId
from penstock.model.settings.listener import DirectoryVoter, HostPort
from penstock.records.control import ControlType, control_record, control_type
from penstock.records.record import Record
from penstock.wire.codec import decode_exact, encode
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.control_records import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    QuorumVoter,
    VotersRecord,
)
from penstock.wire.messages.endpoints import NamedEndpoint

KRAFT_VERSION = 1  # voters are in the log, with the ids of their directories
KRAFT_VERSION_SUPPORTED = KRaftVersionFeature(min_supported_version=0, max_supported_version=1)
VERSION = 0  # of both records


class UnusableVoters(PenstockError):
    """Voters that cannot be read, or not be reached."""


def voter_records(
    voters: Sequence[DirectoryVoter], *, listener: str, timestamp_ms: int
) -> tuple[Record, ...]:
    """The records that make these the voters, reached over the listener of this name."""
    assert voters, "a quorum without voters"
    version = KRaftVersionRecord(version=VERSION, k_raft_version=KRAFT_VERSION)
    record = VotersRecord(
        version=VERSION,
        voters=[
            QuorumVoter(
                voter_id=voter.node_id,
                voter_directory_id=voter.directory_id,
                endpoints=[NamedEndpoint(name=listener, host=voter.host, port=voter.port)],
                k_raft_version_feature=KRAFT_VERSION_SUPPORTED,
            )
            for voter in sorted(voters, key=lambda voter: voter.node_id)
        ],
    )
    return tuple(
        control_record(kind, encode(message, VERSION), timestamp_ms=timestamp_ms)
        for kind, message in (
            (ControlType.KRAFT_VERSION, version),
            (ControlType.KRAFT_VOTERS, record),
        )
    )


def voters_in(
    records: Iterable[Record], *, listener: str, later: Mapping[NodeId, HostPort] | None = None
) -> tuple[DirectoryVoter, ...] | None:
    """The voters that control records name, in the order of their ids, with their addresses of this
    listener; None if they name none. UnusableVoters if a voter has no such address, and `later`,
    which is known from the log, has none either.
    """
    for record in records:
        if control_type(record) is not ControlType.KRAFT_VOTERS:
            continue
        try:
            message = decode_exact(VotersRecord, VERSION, memoryview(bytes(record.value or b"")))
        except MalformedMessage as error:
            raise UnusableVoters(f"the record of the voters is unreadable: {error}") from error
        if not message.voters:
            raise UnusableVoters("the record of the voters is empty")
        return tuple(
            _voter(voter, listener, later or {})
            for voter in sorted(message.voters, key=lambda voter: voter.voter_id)
        )
    return None


def _voter(voter: QuorumVoter, listener: str, later: Mapping[NodeId, HostPort]) -> DirectoryVoter:
    node_id = NodeId(voter.voter_id)
    address = later.get(node_id)
    for endpoint in voter.endpoints:
        if endpoint.name.upper() == listener.upper():
            address = HostPort(host=endpoint.host, port=endpoint.port)
    if address is not None:
        return DirectoryVoter(
            node_id=node_id,
            host=address.host,
            port=address.port,
            directory_id=bytes(voter.voter_directory_id),
        )
    names = ", ".join(endpoint.name for endpoint in voter.endpoints) or "none"
    raise UnusableVoters(
        f"voter {voter.voter_id} has no listener {listener}, but {names}:"
        " controller.listener.names must begin with the same name on all nodes"
    )
