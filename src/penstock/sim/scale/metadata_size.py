"""How large the metadata are: the image in memory, a snapshot of it, and what a voter has on disk.

A snapshot is written and read here with the code of a node, on a disk of its own, so that the CPU
time of both is known.
"""

import gc
import sys
import time
from itertools import islice
from types import FunctionType, ModuleType

from penstock.log.metadata_snapshots import MetadataSnapshots, SnapshotWriter, snapshot_batches
from penstock.metadata.image.image import Image
from penstock.metadata.loader import Loader
from penstock.metadata.records import decode_record, encode_record
from penstock.metadata.snapshot import image_records
from penstock.model.limit import SNAPSHOT_BATCH_RECORDS
from penstock.model.offset import SnapshotId
from penstock.records.iterate import records_of
from penstock.sim.file_system import Content, FileSystem, Folder
from penstock.sim.scale.figures import MetadataSize
from penstock.world.ports import Disk

NS_PER_MS = 1_000_000


def metadata_size(
    image: Image, *, voter: FileSystem, metadata_log: str, scratch: Disk, directory: str
) -> MetadataSize:
    """`metadata_log` is the directory of it on the voter's disk; `directory` is on `scratch`, and
    is left empty.
    """
    scratch.make_directory(directory)
    snapshots = MetadataSnapshots(disk=scratch, directory=directory)
    began_ns = time.thread_time_ns()
    part = snapshots.begin(SnapshotId(image.offset, image.epoch))
    writer = SnapshotWriter(part, timestamp_ms=0)
    records, count = image_records(image), 0
    while values := [encode_record(one) for one in islice(records, SNAPSHOT_BATCH_RECORDS)]:
        writer.append(values)
        count += len(values)
    writer.finish()
    written_ns = time.thread_time_ns()
    size_bytes = part.size_bytes
    loader = Loader()
    loader.load(
        (
            decode_record(bytes(record.value or b""))
            for batch in snapshot_batches(scratch, part.file.path)
            for record in records_of(batch)
        ),
        next_offset=image.offset,
        epoch=image.epoch,
    )
    read_ns = time.thread_time_ns()
    assert loader.image == image, "a snapshot holds the whole image"
    snapshots.drop(part)
    return MetadataSize(
        image_bytes=memory_bytes(loader.image),
        disk_bytes=_folder_bytes(voter, metadata_log),
        snapshot_bytes=size_bytes,
        snapshot_records=count,
        snapshot_write_cpu_ms=(written_ns - began_ns) / NS_PER_MS,
        snapshot_read_cpu_ms=(read_ns - written_ns) / NS_PER_MS,
    )


def memory_bytes(root: object) -> int:
    """Of a value and all that it refers to, each object once; without classes and modules."""
    total, left, seen = 0, [root], {id(root)}
    while left:
        one = left.pop()
        total += sys.getsizeof(one)
        for other in gc.get_referents(one):
            if id(other) not in seen and not isinstance(other, type | ModuleType | FunctionType):
                seen.add(id(other))
                left.append(other)
    return total


def _folder_bytes(disk: FileSystem, path: str) -> int:
    folder = disk.find(path)
    assert isinstance(folder, Folder), path
    return sum(len(one.data) for one in folder.entries.values() if isinstance(one, Content))
