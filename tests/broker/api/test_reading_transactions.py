"""Fetch and ListOffsets of a `read_committed` reader, where transactions are open or aborted."""

import asyncio
from collections.abc import Awaitable
from typing import cast

import pytest

from penstock.broker.api import delete_records, list_offsets
from penstock.broker.api import fetch as fetch_api
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.records.batch import batches
from penstock.replication.marker import Marker
from penstock.replication.partition import Appended, Partition
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from penstock.wire.messages.fetch import FetchResponse, PartitionData
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from rig.data_requests import at, bytes_of, fetch, fetch_request, only
from rig.produced import NOW_MS, produced
from rig.services import Broker

LATEST = -1
COMMITTED = 1


def write(partition: Partition, producer: int, *, sequence: int = 0, count: int = 2) -> None:
    guard = partition.guards.take(ProducerId(producer), sequence=sequence)
    batch = produced(count, producer_id=producer, epoch=0, sequence=sequence, transactional=True)
    outcome = partition.append(batch, all_acks=True, now_ms=NOW_MS, guard=guard)
    assert isinstance(outcome, Appended), outcome
    partition.guards.release(ProducerId(producer), guard)


def end(partition: Partition, producer: int, *, committed: bool = False) -> None:
    marker = Marker(
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        coordinator_epoch=0,
        committed=committed,
    )
    assert isinstance(partition.end_transaction(marker, now_ms=NOW_MS), int)


def read(broker: Broker, offset: int, *, max_bytes: int = 2**20) -> PartitionData:
    wanted = fetch_request("t", at(offset, max_bytes=max_bytes), isolation=COMMITTED)
    answer = only(fetch(broker, wanted))
    assert answer.error_code == ErrorCode.NONE
    return answer


def told_of(answer: PartitionData) -> list[tuple[int, int]]:
    assert answer.aborted_transactions is not None
    return [(one.producer_id, one.first_offset) for one in answer.aborted_transactions]


def latest(broker: Broker) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST, current_leader_epoch=-1)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=COMMITTED,
        topics=[ListOffsetsTopic(name="t", partitions=[asked])],
    )
    response = broker.ask(list_offsets.API, request, ListOffsetsResponse, version=7)
    return response.topics[0].partitions[0].offset


def delete_until(broker: Broker, offset: int) -> None:
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[asked])])
    response = broker.ask(delete_records.API, request, DeleteRecordsResponse, version=2)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


def test_records_of_an_open_transaction_can_be_deleted_and_readers_begin_at_the_start(
    broker: Broker,
) -> None:
    broker.create_topic("t")
    partition = broker.partition("t")
    write(partition, 7, count=6)
    delete_until(broker, 4)
    assert latest(broker) == 4
    answer = read(broker, 4)
    assert (answer.last_stable_offset, answer.log_start_offset) == (4, 4)
    assert bytes_of(answer) == b""
    delete_until(broker, 6)
    assert latest(broker) == 6
    end(partition, 7)
    assert latest(broker) == 7


def test_a_reader_behind_an_abort_whose_beginning_is_deleted_is_told_of_it(broker: Broker) -> None:
    broker.create_topic("t")
    partition = broker.partition("t")
    write(partition, 7, count=4)
    write(partition, 7, sequence=4, count=2)
    end(partition, 7)
    delete_until(broker, 5)
    answer = read(broker, 5)
    assert [batch.base_offset for batch in batches(memoryview(bytes_of(answer)))] == [4, 6]
    assert told_of(answer) == [(7, 0)]


def test_aborted_transactions_are_told_by_first_offset_over_several_segments(
    broker: Broker,
) -> None:
    broker.create_topic("t")
    partition = broker.partition("t")
    for producer in (5, 6, 7):
        write(partition, producer)
    end(partition, 7)
    partition.log.roll()
    end(partition, 5, committed=True)
    write(partition, 7, sequence=2)
    partition.log.roll()
    end(partition, 6)
    end(partition, 7)
    assert told_of(read(broker, 0)) == [(6, 2), (7, 4)]
    assert told_of(read(broker, 7)) == [(6, 2), (7, 8)]


def test_a_reader_is_told_of_no_more_aborts_than_concern_what_it_is_given(broker: Broker) -> None:
    broker.create_topic("t", config={"index.interval.bytes": "0"})
    partition = broker.partition("t")
    for number in range(50):
        write(partition, 7, sequence=2 * number)
        end(partition, 7)
        if number == 25:
            partition.log.roll()
    size_bytes = partition.log.segments[0].batch_bytes_at(0)
    for offset in (0, 30, 90):
        told = told_of(read(broker, offset, max_bytes=size_bytes))
        assert (7, offset) in told
        assert len(told) <= 2
    assert len(told_of(read(broker, 0))) == 26


@pytest.mark.parametrize("written_before", [True, False])
def test_the_end_of_a_transaction_lets_waiting_readers_go_on(
    broker: Broker, written_before: bool
) -> None:
    """However much they wait for: all that stood behind it has come at once."""
    broker.create_topic("t")
    partition = broker.partition("t")
    wanted = fetch_request("t", at(0), isolation=COMMITTED, wait_ms=60_000, min_bytes=2000)

    def write_all() -> None:
        write(partition, 7, count=100)
        for _ in range(10):
            partition.append(produced(10), all_acks=True, now_ms=NOW_MS)

    async def scenario() -> PartitionData:
        if written_before:
            write_all()
        waiting = broker.send(fetch_api.API, wanted, version=12)
        task = asyncio.ensure_future(cast(Awaitable[FetchResponse], waiting))
        await settle()
        if not written_before:
            write_all()
            await settle()
        assert not task.done()
        end(partition, 7, committed=True)
        return only(await asyncio.wait_for(task, 50))

    answer = asyncio.run(scenario())
    assert answer.last_stable_offset == 201
    assert len(bytes_of(answer)) >= 2000


async def settle() -> None:
    """Whatever can go on does."""
    for _ in range(20):
        await asyncio.sleep(0)
