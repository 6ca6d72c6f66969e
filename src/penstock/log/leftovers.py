"""Cleans up a partition's directory after a crash in the middle of an operation.

    *.deleted            on its way out: remove
    *.cleaned            the output of a compaction that did not finish: remove
    *.swap               the output of one that did: it takes the place of the segments it covers;
                         an index whose log is not there by this name is the log's of that base
                         offset if that has none, and goes otherwise
    *.tmp                a small file that was about to be replaced: remove
    an index without its .log     remove

A swap whose records are in a segment that a `.cleaned` belongs to as well has not got all of its
names, or it is a part of Apache Kafka's unfinished split: remove. Any other `.cleaned` is of an
earlier compaction, and tells nothing about a swap, whose sources may be gone already. Each step can
be interrupted and repeated.
"""

from collections.abc import Collection

from penstock.log import layout
from penstock.log.scan import headers
from penstock.model.offset import Offset
from penstock.records.errors import CorruptBatch
from penstock.world.ports import Disk

# Snapshots of the metadata log end like this on their way out; their owner removes them.
_METADATA_SNAPSHOT_DELETED = ".checkpoint.deleted"


def tidy(disk: Disk, directory: str) -> None:
    """Completes or removes everything unfinished, so that only segments are left."""
    names = disk.names(directory)
    unfinished = [name for name in names if name.endswith(layout.CLEANED)]
    swaps = [name for name in names if name.endswith(layout.SWAP)]
    if unfinished and swaps:
        dropped = _swaps_to_drop(disk, directory, swaps, {_base_offset(one) for one in unfinished})
        for name in dropped:
            disk.remove(f"{directory}/{name}")
        # None may be back when nothing tells any more that it was to be dropped.
        disk.sync_directory(directory)
        swaps = [name for name in swaps if name not in dropped]
    for name in names:
        gone = name.endswith((layout.DELETED, layout.TEMPORARY, layout.CLEANED))
        if gone and not name.endswith(_METADATA_SNAPSHOT_DELETED):
            disk.remove(f"{directory}/{name}")
    if swaps:
        _finish_swaps(disk, directory, swaps)
    _remove_orphans(disk, directory)


def _swaps_to_drop(
    disk: Disk, directory: str, swaps: list[str], unfinished: Collection[Offset]
) -> list[str]:
    """The swaps that are not complete; `unfinished` are the base offsets of `.cleaned` files."""
    parsed = [layout.parse_segment_file(name) for name in disk.names(directory)]
    bases = [one[0] for one in parsed if one is not None and one[1] == layout.LOG]
    dropped: list[str] = []
    for name in swaps:
        offset = _base_offset(name)
        base = max((one for one in bases if one <= offset), default=None)
        if base is None or not any(base <= one <= offset for one in unfinished):
            continue
        log = layout.segment_path(directory, base, layout.LOG)
        if base == offset or _next_offset(disk, log, base) > offset:
            dropped.append(name)
    return dropped


def _finish_swaps(disk: Disk, directory: str, swaps: list[str]) -> None:
    logs = [name for name in swaps if name.endswith(layout.LOG + layout.SWAP)]
    bases = {_base_offset(name) for name in logs}
    covered_from = min((_base_offset(name) for name in logs), default=Offset(0))
    covered_until = max(
        (_next_offset(disk, f"{directory}/{name}", _base_offset(name)) for name in logs),
        default=Offset(0),
    )
    for name in disk.names(directory):
        parsed = layout.parse_segment_file(name)
        if parsed is None or parsed[1] not in layout.SEGMENT_SUFFIXES:
            continue
        if covered_from <= parsed[0] < covered_until:
            disk.remove(f"{directory}/{name}")
    for name in swaps:
        target = f"{directory}/{name.removesuffix(layout.SWAP)}"
        if _base_offset(name) not in bases and disk.exists(target):
            disk.remove(f"{directory}/{name}")
        elif name not in logs:
            disk.rename(f"{directory}/{name}", target)
    # Two segments with the same offsets must not be found: the old ones are gone for sure first.
    disk.sync_directory(directory)
    for name in logs:
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(layout.SWAP)}")
    disk.sync_directory(directory)


def _remove_orphans(disk: Disk, directory: str) -> None:
    parsed = {name: layout.parse_segment_file(name) for name in disk.names(directory)}
    with_log = {one[0] for one in parsed.values() if one is not None and one[1] == layout.LOG}
    for name, one in parsed.items():
        if one is None or one[1] not in layout.SEGMENT_SUFFIXES:
            continue
        if one[0] not in with_log:
            disk.remove(f"{directory}/{name}")


def _base_offset(name: str) -> Offset:
    digits = name.split(".", 1)[0]
    return Offset(int(digits)) if digits.isdigit() else Offset(0)


def _next_offset(disk: Disk, path: str, base_offset: Offset) -> Offset:
    """Where a .log file ends that begins at `base_offset`."""
    file = disk.open(path)
    next_offset = base_offset
    try:
        for _, header in headers(file, start=0, end=file.size):
            next_offset = header.next_offset
    except CorruptBatch:
        pass  # recovery cuts it off there
    finally:
        file.close()
    return next_offset
