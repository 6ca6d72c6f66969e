"""Directories that someone left in the middle of something."""

from rig.logs import append, make_batch, open_log, values
from rig.memory_disk import MemoryDisk, Node

FOLDER = "/data/orders-0"


def files_of(disk: MemoryDisk) -> list[str]:
    return disk.names(FOLDER)


def put(disk: MemoryDisk, name: str, data: bytes = b"") -> None:
    disk.files[f"{FOLDER}/{name}"] = Node(bytearray(data))


def filled() -> MemoryDisk:
    disk = MemoryDisk()
    opened = open_log(disk)
    while len(opened.log.segments) < 4:
        append(opened.log, 2)
    opened.directory.close()
    return disk


def test_files_on_their_way_out_are_removed() -> None:
    disk = filled()
    names = files_of(disk)
    put(disk, f"{99:020d}.log.deleted", b"x")
    put(disk, f"{0:020d}.log.cleaned", b"x")
    put(disk, "leader-epoch-checkpoint.tmp", b"x")
    put(disk, f"{77:020d}.index", b"x")
    open_log(disk)
    assert files_of(disk) == names


def test_finished_compaction_takes_the_place_of_what_it_covers() -> None:
    disk = filled()
    bases = [int(name[:20]) for name in files_of(disk) if name.endswith(".log")]
    compacted = make_batch(0, 1), make_batch(bases[2] - 2, 2)
    put(disk, f"{0:020d}.log.swap", b"".join(bytes(batch.view) for batch in compacted))
    put(disk, f"{0:020d}.index.swap")
    put(disk, f"{0:020d}.timeindex.swap")
    log = open_log(disk).log
    assert [segment.base_offset for segment in log.segments] == [0, *bases[2:]]
    assert [offset for offset, _ in values(log)][:3] == [0, bases[2] - 2, bases[2] - 1]


def test_finished_compaction_whose_sources_are_gone_already_loses_nothing() -> None:
    disk = filled()
    first = f"{0:020d}"
    content = bytes(disk.files[f"{FOLDER}/{first}.log"].data)
    for suffix in (".log", ".index", ".timeindex"):
        disk.rename(f"{FOLDER}/{first}{suffix}", f"{FOLDER}/{first}{suffix}.deleted")
    put(disk, f"{first}.log.swap", content)
    log = open_log(disk).log
    assert values(log) == [(o, str(o).encode()) for o in range(log.end_offset)]


def test_swap_of_an_unfinished_split_is_dropped() -> None:
    disk = filled()
    names = files_of(disk)
    put(disk, f"{0:020d}.log.cleaned", b"x")
    put(disk, f"{4:020d}.log.swap", bytes(make_batch(4).view))
    open_log(disk)
    assert files_of(disk) == names
