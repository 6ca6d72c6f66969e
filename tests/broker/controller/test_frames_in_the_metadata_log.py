"""A broker that leads more partitions than one batch holds comes back in one decision, of which a
crash keeps all or nothing.
"""

from dataclasses import dataclass, field

import pytest

from penstock.broker.api.create_topics import API as CREATE_TOPICS
from penstock.metadata.records import decode_record
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.records.iterate import records_of
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.metadata_records.transaction import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from rig.control import Control, run_with
from rig.memory_disk import MemoryDisk

LOG = "/data/__cluster_metadata-0/00000000000000000000.log"
TOPICS = {"many": DECISION_RECORDS_MAX - 1, "more": 10}


async def create(control: Control) -> int:
    for name, partitions in TOPICS.items():
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
        reply = await control.ask(CREATE_TOPICS, request, CreateTopicsResponse)
        assert reply.topics[0].error_code == 0
    return control.log.size_bytes


@dataclass
class Seen:
    """What a start found, and what it wrote."""

    leader_epochs: set[int]
    kinds: list[type] = field(default_factory=list)
    batch_ends: list[int] = field(default_factory=list)


async def look(control: Control) -> Seen:
    seen = Seen(
        {
            partition.leader_epoch
            for topic in control.image.topics_by_id.values()
            for partition in topic.partitions
        }
    )
    position = 0
    for batch in control.log.batches_from(control.log.start_offset):
        position += batch.size_bytes
        seen.batch_ends.append(position)
        if not batch.is_control:
            records = [decode_record(bytes(record.value or b"")) for record in records_of(batch)]
            seen.kinds.extend(type(record) for record in records)
    return seen


@pytest.fixture(scope="module")
def created() -> tuple[MemoryDisk, int]:
    disk = MemoryDisk()
    return disk, run_with(disk, create)


def test_all_partitions_are_led_anew_in_one_frame(created: tuple[MemoryDisk, int]) -> None:
    disk, _ = created
    seen = run_with(disk.after_kill(), look)
    assert seen.leader_epochs == {1}
    assert seen.kinds.count(BeginTransactionRecord) == 1
    assert seen.kinds.count(EndTransactionRecord) == 1
    assert AbortTransactionRecord not in seen.kinds


def test_a_frame_that_a_crash_left_open_is_aborted_first(created: tuple[MemoryDisk, int]) -> None:
    disk, size_bytes = created
    whole = disk.after_kill()
    ends = [end for end in run_with(whole, look).batch_ends if end > size_bytes]
    # The leader change, then the two batches of the frame: the second one is lost.
    left = whole.after_kill()
    file = left.open(LOG)
    file.truncate(ends[1])
    file.close()
    seen = run_with(left, look)
    assert seen.leader_epochs == {1}, "the frame that was cut off has had no effect"
    assert seen.kinds.count(AbortTransactionRecord) == 1
    assert seen.kinds.count(BeginTransactionRecord) == 2
    assert seen.kinds.count(EndTransactionRecord) == 1
    assert seen.kinds.index(AbortTransactionRecord) < seen.kinds.index(EndTransactionRecord)
    again = run_with(left.after_kill(), look)
    assert again.leader_epochs == {2}
