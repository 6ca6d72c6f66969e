"""The records with which a new cluster begins, as formatting left them: `bootstrap.checkpoint`."""

from penstock.log.metadata_snapshots import DamagedSnapshot, snapshot_batches
from penstock.metadata.bootstrap_files import BOOTSTRAP_FILE
from penstock.metadata.framing import FrameReader
from penstock.metadata.records import MetadataRecord, UnreadableMetadata, decode_record
from penstock.records.errors import CorruptBatch
from penstock.records.iterate import records_of
from penstock.world.ports import Disk


def read_bootstrap(disk: Disk, metadata_directory: str) -> tuple[MetadataRecord, ...] | None:
    """None where there is no such file: the directory was formatted by a node that is alone.
    UnreadableMetadata when it is damaged, or asks for what this version does not know.
    """
    path = f"{metadata_directory}/{BOOTSTRAP_FILE}"
    if not disk.exists(path):
        return None
    try:
        return tuple(
            FrameReader().read(
                [
                    decode_record(bytes(record.value or b""))
                    for batch in snapshot_batches(disk, path)
                    for record in records_of(batch)
                ]
            )
        )
    except (DamagedSnapshot, CorruptBatch, UnreadableMetadata) as error:
        raise UnreadableMetadata(f"{path} cannot be used: {error}") from error
