"""The voters that a metadata directory names: `kraft.version` 1.

Every snapshot names them, and the newest one counts. A snapshot that is damaged is passed over, as
at the start of a node.
"""

from penstock.log.layout import LOG
from penstock.log.metadata_snapshots import (
    WHOLE,
    DamagedSnapshot,
    published,
    quorum_records,
)
from penstock.log.quorum_state import UnreadableQuorumState, read_quorum_state
from penstock.log.scan import whole_batches
from penstock.metadata.voter_records import UnusableVoters, voters_in
from penstock.model.identity import NodeId
from penstock.model.settings.listener import DirectoryVoter, HostPort
from penstock.node.formatting import METADATA_LOG
from penstock.raft.voters import VoterSet
from penstock.raft.wire_form.voters import voters_in as voters_in_log
from penstock.records.errors import CorruptBatch
from penstock.wire.errors import MalformedMessage
from penstock.world.ports import Disk


def latest_in_log(disk: Disk, metadata_directory: str) -> VoterSet | None:
    """The last set that the log names, read before the log is opened; None if it names none. Only a
    replica that has kept its `quorum-state` with kraft.version 1 can have one.
    """
    directory = f"{metadata_directory}/{METADATA_LOG}"
    if not disk.is_directory(directory):
        return None
    try:
        state = read_quorum_state(disk, directory)
    except UnreadableQuorumState:
        return None  # the start reports it
    if state is None or state.static_voters is not None:
        return None
    for name in sorted(disk.names(directory), reverse=True):
        if not name.endswith(LOG):
            continue
        file = disk.open(f"{directory}/{name}", writable=False)
        try:
            batches = [batch for _, batch in whole_batches(file, start=0, end=file.size)]
            named = list(voters_in_log(batches))
        except (CorruptBatch, MalformedMessage):
            continue  # recovery cuts it off, or reports it
        finally:
            file.close()
        if named:
            return named[-1].voters
    return None


def read_voters(
    disk: Disk, metadata_directory: str, *, listener: str, latest: VoterSet | None = None
) -> tuple[DirectoryVoter, ...] | None:
    """The voters in the order of their ids, with their addresses of this listener: the first name
    of `controller.listener.names`. None if the directory names none: then they are static. A
    listener that voters have got since the snapshot is in the set that the log names last.

    Nothing is changed. DamagedSnapshot if they may be in a file that is damaged, UnusableVoters if
    the record of them is.
    """
    directory = f"{metadata_directory}/{METADATA_LOG}"
    if not disk.is_directory(directory):
        return None
    later = {} if latest is None else _addresses(latest, listener)
    damaged: DamagedSnapshot | None = None
    for snapshot_id in reversed(published(disk, directory)):
        path = f"{directory}/{snapshot_id}{WHOLE}"
        try:
            voters = voters_in(quorum_records(disk, path), listener=listener, later=later)
        except DamagedSnapshot as error:
            damaged = damaged or error
        except (UnusableVoters, CorruptBatch) as error:
            raise UnusableVoters(f"{path}: {error}") from error
        else:
            if voters is not None:
                return voters
    if damaged is not None:
        raise damaged
    return None


def _addresses(voters: VoterSet, listener: str) -> dict[NodeId, HostPort]:
    return {
        node_id: HostPort(host=endpoint.host, port=endpoint.port)
        for node_id, details in voters.details.items()
        for endpoint in details.endpoints
        if endpoint.name.upper() == listener.upper()
    }
