"""A broker that leads more partitions than one batch holds comes back in one decision, of which a
crash keeps all or nothing.
"""

import pytest

from penstock.broker.api.create_topics import API as CREATE_TOPICS
from penstock.log.scan import whole_batches
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
from rig.control import Control, run_with, until
from rig.memory_disk import MemoryDisk

DIRECTORY = "/data/__cluster_metadata-0"
FRAMES = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
TOPICS = {"many": DECISION_RECORDS_MAX - 1, "more": 10}


@pytest.fixture(scope="module")
def created() -> MemoryDisk:
    disk = MemoryDisk()

    async def create(control: Control) -> None:
        for name, partitions in TOPICS.items():
            topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
            reply = await control.ask(CREATE_TOPICS, request, CreateTopicsResponse)
            assert reply.topics[0].error_code == 0
        # So large a snapshot that the frames below do not make another one due.
        await until(lambda: any(name.endswith(".checkpoint") for name in disk.names(DIRECTORY)))

    run_with(disk, create)
    return disk


async def leader_epochs(control: Control) -> set[int]:
    return {
        partition.leader_epoch
        for topic in control.image.topics_by_id.values()
        for partition in topic.partitions
    }


def frames_in(disk: MemoryDisk) -> list[tuple[type, str, int]]:
    """The records of frames in the log: their kind, their file, and where their batch ends."""
    found: list[tuple[type, str, int]] = []
    for name in disk.names(DIRECTORY):
        if not name.endswith(".log"):
            continue
        file = disk.open(f"{DIRECTORY}/{name}")
        for position, batch in whole_batches(file, start=0, end=file.size):
            if not batch.is_control:
                found += [
                    (type(record), file.path, position + batch.size_bytes)
                    for record in (
                        decode_record(bytes(one.value or b"")) for one in records_of(batch)
                    )
                    if type(record) in FRAMES
                ]
        file.close()
    return found


def kinds_in(disk: MemoryDisk) -> list[type]:
    return [kind for kind, _, _ in frames_in(disk)]


def test_all_partitions_lose_their_leader_in_one_frame_and_have_it_back_in_another(
    created: MemoryDisk,
) -> None:
    disk = created.after_kill()
    assert run_with(disk, leader_epochs) == {2}
    assert kinds_in(disk) == [BeginTransactionRecord, EndTransactionRecord] * 2


def test_a_frame_that_a_crash_left_open_is_aborted_first(created: MemoryDisk) -> None:
    disk = created.after_kill()
    run_with(disk, leader_epochs)
    _, path, end_of_its_first_batch = frames_in(disk)[0]
    left = disk.after_kill()
    file = left.open(path)
    assert file.size > end_of_its_first_batch
    file.truncate(end_of_its_first_batch)
    file.close()
    assert run_with(left, leader_epochs) == {2}, "the frame that was cut off has had no effect"
    assert kinds_in(left) == [
        BeginTransactionRecord,
        AbortTransactionRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
    ]
    assert run_with(left.after_kill(), leader_epochs) == {4}
