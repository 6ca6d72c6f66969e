"""Record batches of a small reply are sent in one piece with it; those of a large one are not read.

A reply in one piece wakes its reader once, and costs one call instead of two for each range.
"""

from penstock.broker.network.connection import COPIED_BYTES_MAX, SMALL_RANGE_BYTES, in_memory
from penstock.wire.codec import Part
from penstock.world.ports import FileRange
from rig.memory_disk import MemoryDisk


def ranges(*sizes: int) -> list[Part]:
    """A reply with ranges of these sizes, one after the other in one file."""
    disk = MemoryDisk()
    file = disk.open("/log", create=True)
    file.append([bytes(number % 251 for number in range(sum(sizes)))])
    parts: list[Part] = [b"head"]
    position = 0
    for size in sizes:
        parts += [FileRange(file=file, position=position, byte_count=size), b"next"]
        position += size
    return parts


def test_ranges_up_to_the_limit_are_copied_in_their_places() -> None:
    half = COPIED_BYTES_MAX // 2
    buffers = in_memory(ranges(half, half))
    assert buffers is not None
    assert [len(buffer) for buffer in buffers] == [4, half, 4, half, 4]
    assert bytes(buffers[3][:3]) == bytes(number % 251 for number in range(half, half + 3))


def test_one_byte_more_is_sent_from_the_page_cache() -> None:
    assert in_memory(ranges(COPIED_BYTES_MAX + 1)) is None
    assert in_memory(ranges(COPIED_BYTES_MAX, 1)) is None


def test_many_small_ranges_are_copied_however_many() -> None:
    count = COPIED_BYTES_MAX // SMALL_RANGE_BYTES + 1
    buffers = in_memory(ranges(*[SMALL_RANGE_BYTES] * count))
    assert buffers is not None
    assert len(buffers) == 1 + 2 * count


def test_a_reply_without_ranges_is_handed_on() -> None:
    assert in_memory([b"one", b"two"]) == [b"one", b"two"]
