"""Record batches of a small reply are sent in one piece with it; those of a large one are not read.

A reply in one piece wakes its reader once, and costs one call instead of two for each range.
"""

import asyncio
import struct

import pytest

from penstock.broker.network.connection import (
    COPIED_BYTES_MAX,
    SMALL_COPIED_BYTES_MAX,
    SMALL_RANGE_BYTES,
    in_memory,
)
from penstock.broker.request.context import RequestContext
from penstock.broker.request.pending_reply import PendingReply
from penstock.broker.request.services import Services
from penstock.wire.codec import Part
from penstock.wire.messages.metadata import MetadataRequest
from penstock.world.ports import FileRange, World
from rig.memory_disk import MemoryDisk
from rig.raw_serving import Answer, run_in_virtual_time, serving


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


def test_many_small_ranges_are_copied_up_to_a_limit_of_their_own() -> None:
    count = SMALL_COPIED_BYTES_MAX // SMALL_RANGE_BYTES
    buffers = in_memory(ranges(*[SMALL_RANGE_BYTES] * count))
    assert buffers is not None
    assert len(buffers) == 1 + 2 * count
    assert in_memory(ranges(*[SMALL_RANGE_BYTES] * count, 1)) is None


def test_a_reply_without_ranges_is_handed_on() -> None:
    assert in_memory([b"one", b"two"]) == [b"one", b"two"]


@pytest.mark.parametrize("large_bytes", [0, COPIED_BYTES_MAX], ids=["alone", "before a large one"])
def test_small_ranges_are_not_read_ahead_of_a_reader_that_does_not_take_them(
    large_bytes: int,
) -> None:
    small_count = 10 * SMALL_COPIED_BYTES_MAX // SMALL_RANGE_BYTES
    disk = MemoryDisk()
    file = disk.open("/log", create=True)
    content = bytes(number % 251 for number in range(SMALL_RANGE_BYTES))
    file.append([content * (small_count + large_bytes // SMALL_RANGE_BYTES)])
    reply = PendingReply()

    def handle(services: Services, message: MetadataRequest, context: RequestContext) -> Answer:
        return reply

    async def scenario(world: World) -> None:
        async with serving(handle=handle, world=world) as served:
            client = await served.connect()
            await client.ask(MetadataRequest(), 1)
            await asyncio.sleep(1)
            parts: list[Part] = [struct.pack(">i", file.size)]
            small_bytes = small_count * SMALL_RANGE_BYTES
            parts += [
                FileRange(file=file, position=position, byte_count=SMALL_RANGE_BYTES)
                for position in range(0, small_bytes, SMALL_RANGE_BYTES)
            ]
            if large_bytes:
                parts.append(FileRange(file=file, position=small_bytes, byte_count=large_bytes))
            reply.fill(parts)
            await asyncio.sleep(1)
            assert disk.reads <= SMALL_COPIED_BYTES_MAX // SMALL_RANGE_BYTES
            frame = await client.frame()
            assert frame is not None
            assert bytes(frame) == content * (file.size // SMALL_RANGE_BYTES)

    run_in_virtual_time(scenario)
