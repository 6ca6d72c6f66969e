"""Bits that flip at rest: in a batch of a sealed segment, in its records.

Not in its header: a broker that is asked for an offset believes headers, as Apache Kafka's does, so
a reader may never be handed the batch whose checksum would tell.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from penstock.log.layout import LOG
from penstock.model.identity import TopicPartition
from penstock.records.batch import batches
from penstock.records.layout import HEADER_BYTES
from penstock.sim.file_system import Content
from penstock.sim.sim_node import SimNode


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedBit:
    partition: TopicPartition
    path: str
    position: int
    cut_offset: int  # where the batch before it ends: where a start that finds it ends the log

    def __str__(self) -> str:
        return f"a bit of {self.path} at {self.position} has flipped"


def flip_a_bit(
    node: SimNode,
    chance: Random,
    spares: Callable[[TopicPartition], bool],
    *,
    synced_only: bool = True,
) -> FlippedBit | None:
    """None when there is nothing that could be damaged. A start reads again what was not synced,
    and cuts the log off where it is damaged.
    """
    broker = node.broker
    if broker is None or not node.up.is_set():
        return None
    found = []
    for partition, log in sorted(broker.logs.items()):
        if spares(partition):
            continue
        for segment, after in zip(log.segments, log.segments[1:], strict=False):
            is_synced = after.base_offset <= log.recovery_point
            if (is_synced or not synced_only) and segment.size_bytes > HEADER_BYTES:
                found.append((partition, segment.path(LOG), segment.base_offset))
    if not found:
        return None
    partition, path, segment_offset = chance.choice(found)
    content = node.host.file_system.find(path)
    assert isinstance(content, Content), path
    candidates = []
    start, end_offset = 0, int(segment_offset)
    for batch in batches(memoryview(bytes(content.data))):
        if batch.size_bytes > HEADER_BYTES:  # compaction leaves bare headers
            candidates.append((start, batch.size_bytes, end_offset))
        start, end_offset = start + batch.size_bytes, int(batch.next_offset)
    if not candidates:
        return None
    start, size_bytes, cut_offset = chance.choice(candidates)
    position = chance.randrange(start + HEADER_BYTES, start + size_bytes)
    content.flip(position, chance.randrange(8))
    return FlippedBit(partition=partition, path=path, position=position, cut_offset=cut_offset)
