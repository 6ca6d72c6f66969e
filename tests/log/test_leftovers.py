"""Directories that someone left in the middle of something."""

import pytest

from rig.logs import append, make_batch, open_log, values
from rig.memory_disk import Crashed, MemoryDisk, Node

FOLDER = "/data/orders-0"
CALLS_MAX = 200


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


@pytest.mark.parametrize("cleaned_base", [0, 2, 4])
def test_swap_of_an_unfinished_split_that_begins_above_its_segment_is_dropped(
    cleaned_base: int,
) -> None:
    disk = filled()
    names = files_of(disk)
    put(disk, f"{cleaned_base:020d}.index.cleaned", b"x")
    put(disk, f"{4:020d}.log.swap", bytes(make_batch(4).view))
    put(disk, f"{8:020d}.log.swap", bytes(make_batch(8).view))
    open_log(disk)
    assert files_of(disk) == names


@pytest.mark.parametrize(
    "leftover",
    [f"{0:020d}.log.cleaned", f"{0:020d}.txnindex.cleaned", f"{5:020d}.log.cleaned"],
)
@pytest.mark.parametrize("kept_names", [(), (".log",), (".log", ".index", ".timeindex")])
def test_output_of_an_earlier_pass_costs_no_records_of_a_swap(
    leftover: str, kept_names: tuple[str, ...]
) -> None:
    """Of the two sources the first may have its old name back after a power loss."""
    for crash_at in range(CALLS_MAX):
        disk = filled()
        bases = [int(name[:20]) for name in files_of(disk) if name.endswith(".log")]
        first, second = f"{bases[1]:020d}", f"{bases[2]:020d}"
        content = b""
        for base in (first, second):
            content += bytes(disk.files[f"{FOLDER}/{base}.log"].data)
            for suffix in (".log", ".index", ".timeindex"):
                if base == second or suffix not in kept_names:
                    path = f"{FOLDER}/{base}{suffix}"
                    disk.rename(path, path + ".deleted")
        put(disk, f"{first}.log.swap", content)
        put(disk, leftover, b"x")
        disk.faults.calls, disk.faults.crash_at = 0, crash_at
        crashed = False
        try:
            open_log(disk)
        except Crashed:
            crashed = True
        log = open_log(disk.after_kill()).log
        assert log.recovery.intact
        assert values(log) == [(o, str(o).encode()) for o in range(log.end_offset)]
        assert log.end_offset > bases[3]
        if not crashed:
            return
    pytest.fail(f"a start takes more than {CALLS_MAX} calls")


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex"])
def test_swap_that_has_not_got_all_of_its_names_is_dropped(suffix: str) -> None:
    disk = filled()
    names = files_of(disk)
    first = f"{0:020d}"
    for one in (".log", ".index", ".timeindex", ".txnindex"):
        put(disk, f"{first}{one}" + (".cleaned" if one == suffix else ".swap"), b"x")
    open_log(disk)
    assert files_of(disk) == names
