"""Creates what a log begins with: its directory, its identity, a segment.

A directory is claimed by `partition.metadata` before it holds a segment, so a crash in between
leaves a directory without records, which the next start claims again.
"""

from penstock.log import layout
from penstock.log.checkpoint import decode_partition_metadata, encode_partition_metadata
from penstock.log.errors import TopicIdMismatch
from penstock.log.loaded_indexes import LoadedIndexes
from penstock.log.segment import Segment
from penstock.model.identity import NO_TOPIC_ID, TopicId, TopicPartition, id_text
from penstock.model.offset import Offset
from penstock.world.errors import DiskError
from penstock.world.ports import Disk


def claim_directory(disk: Disk, directory: str, topic_id: TopicId) -> TopicId:
    """Makes the directory of a topic's partition, or checks the existing one; returns its topic id.

    With NO_TOPIC_ID the directory of any topic is accepted. TopicIdMismatch when it is that of
    another topic.
    """
    found = topic_id_of(disk, directory)
    if found is not None:
        if topic_id not in (NO_TOPIC_ID, found):
            raise TopicIdMismatch(directory, expected=id_text(topic_id), found=id_text(found))
        return found
    disk.make_directory(directory)
    if topic_id != NO_TOPIC_ID:
        metadata = encode_partition_metadata(topic_id)
        disk.write_whole(f"{directory}/{layout.PARTITION_METADATA}", metadata)
    disk.sync_directory(directory.rpartition("/")[0] or "/")
    return topic_id


def topic_id_of(disk: Disk, directory: str) -> TopicId | None:
    """The topic id of a directory; None when it has no claim, or a power loss has damaged it."""
    path = f"{directory}/{layout.PARTITION_METADATA}"
    if not disk.exists(path):
        return None
    data = disk.read(path)
    return decode_partition_metadata(path, data) if data.strip(b"\0") else None


def free_name(
    disk: Disk, *, parent: str, partition: TopicPartition, token: bytes, suffix: str
) -> str:
    """A free path for a directory that is out of use; its token begins with the topic's id."""
    number = int.from_bytes(token)
    while True:
        name = layout.retired_directory(partition, number.to_bytes(16), suffix)
        if not disk.exists(f"{parent}/{name}"):
            return f"{parent}/{name}"
        number = (number + 1) % 2**128


def new_segment(
    disk: Disk, directory: str, base_offset: Offset, now_ms: int, loaded: LoadedIndexes
) -> Segment:
    """An empty segment with its files. On failure none of the files is left behind."""
    segment = Segment(
        disk=disk,
        directory=directory,
        base_offset=base_offset,
        size_bytes=0,
        created_ms=now_ms,
        loaded=loaded,
        is_new=True,
    )
    try:
        segment.create_files()
    except DiskError:
        segment.remove_files()
        raise
    return segment
