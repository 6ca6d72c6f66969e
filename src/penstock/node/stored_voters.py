"""The voters that a metadata directory names: `kraft.version` 1.

Every snapshot names them, and the newest one counts. A snapshot that is damaged is passed over, as
at the start of a node.
"""

from penstock.log.metadata_snapshots import (
    WHOLE,
    DamagedSnapshot,
    published,
    quorum_records,
)
from penstock.metadata.voter_records import UnusableVoters, voters_in
from penstock.model.settings.listener import DirectoryVoter
from penstock.node.formatting import METADATA_LOG
from penstock.records.errors import CorruptBatch
from penstock.world.ports import Disk


def read_voters(
    disk: Disk, metadata_directory: str, *, listener: str
) -> tuple[DirectoryVoter, ...] | None:
    """The voters in the order of their ids, with their addresses of this listener: the first name
    of `controller.listener.names`. None if the directory names none: then they are static.

    Nothing is changed. DamagedSnapshot if they may be in a file that is damaged, UnusableVoters if
    the record of them is.
    """
    directory = f"{metadata_directory}/{METADATA_LOG}"
    if not disk.is_directory(directory):
        return None
    damaged: DamagedSnapshot | None = None
    for snapshot_id in reversed(published(disk, directory)):
        path = f"{directory}/{snapshot_id}{WHOLE}"
        try:
            voters = voters_in(quorum_records(disk, path), listener=listener)
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
