"""A walk over batches ends, whatever the file turns out to hold."""

from collections.abc import Callable, Iterator

import pytest

from penstock.log.scan import BATCH_READ_BYTES, HEADER_READ_BYTES, headers, whole_batches
from penstock.records.errors import IncompleteBatch
from penstock.world.ports import File
from rig.logs import make_batch
from rig.memory_disk import MemoryDisk, MemoryFile

READS_MAX = 100

Walk = Callable[[File, int], Iterator[tuple[int, object]]]


def walk_headers(file: File, end: int) -> Iterator[tuple[int, object]]:
    return headers(file, start=0, end=end)


def walk_batches(file: File, end: int) -> Iterator[tuple[int, object]]:
    return whole_batches(file, start=0, end=end)


class CountedFile(MemoryFile):
    """A file of which nobody reads for ever."""

    def read_at(self, position: int, count: int) -> bytes:
        found = super().read_at(position, count)
        assert self._disk.reads <= READS_MAX, "the walk does not end"
        return found


def file_of(*batch_bytes: int) -> CountedFile:
    disk = MemoryDisk()
    disk.make_directory("/data")
    file = disk.open("/data/file", create=True)
    for offset, size_bytes in enumerate(batch_bytes):
        file.append([make_batch(offset, size_bytes=size_bytes).view])
    return CountedFile(disk, file.path, disk.files["/data/file"])


@pytest.mark.parametrize("walk", [walk_headers, walk_batches])
@pytest.mark.parametrize("sizes", [(), (20,), (20,) * 200, (2 * BATCH_READ_BYTES, 20)])
@pytest.mark.parametrize("missing", [1, 12, 61, 100, 2 * HEADER_READ_BYTES, 3 * BATCH_READ_BYTES])
def test_file_shorter_than_it_was_is_told_after_its_last_batch(
    walk: Walk, sizes: tuple[int, ...], missing: int
) -> None:
    file = file_of(*sizes)
    found = []
    with pytest.raises(IncompleteBatch) as raised:
        for position, _ in walk(file, file.size + missing):
            found.append(position)
    assert len(found) == len(sizes)
    assert raised.value.position == file.size


@pytest.mark.parametrize("walk", [walk_headers, walk_batches])
@pytest.mark.parametrize("cut", [1, 30, 60])
def test_file_cut_within_a_batch_is_told_there(walk: Walk, cut: int) -> None:
    file = file_of(20, 20, 20)
    end, batch_bytes = file.size, file.size // 3
    file.truncate(batch_bytes * 2 + cut)
    found = []
    with pytest.raises(IncompleteBatch) as raised:
        for position, _ in walk(file, end):
            found.append(position)
    assert found == [0, batch_bytes]
    assert raised.value.position == batch_bytes * 2
