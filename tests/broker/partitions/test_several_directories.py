"""Partitions live in several directories; one that fails takes no other with it."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.api import describe_log_dirs, find_coordinator, metadata
from penstock.broker.api import produce as produce_api
from penstock.broker.partitions.log_directories import DirectoryLost
from penstock.broker.partitions.reopening import Reopening
from penstock.groups.partitioning import OFFSETS_TOPIC, partition_of
from penstock.metadata.image.image import Delta
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.replication.partition import Partition
from penstock.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from penstock.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from penstock.wire.messages.produce import ProduceResponse
from penstock.world.errors import DiskError
from rig.data_requests import produce, produce_request
from rig.memory_disk import MemoryDisk
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker
from rig.watched_disk import WatchedDisk

TWO = ("a", "b")
FSYNC = {"penstock.ack.fsync": "true"}
INPUT_OUTPUT_ERROR = OSError(5, "Input/output error")


def home_of(broker: Broker, topic: str, index: int = 0) -> str:
    return Path(broker.partition(topic, index).log.directory).parent.name


def index_in(broker: Broker, home: str, topic: str = "t") -> int:
    return next(index for index in range(9) if home_of(broker, topic, index) == home)


def code_of(broker: Broker, topic: str, index: int = 0) -> ErrorCode:
    found = broker.partitions.find(topic, index)
    return ErrorCode.NONE if isinstance(found, Partition) else found


def described(broker: Broker) -> dict[str, tuple[int, int]]:
    """Of each directory: the error, and how many partitions it has."""
    request = DescribeLogDirsRequest(topics=None)
    reply = broker.ask(describe_log_dirs.API, request, DescribeLogDirsResponse, version=4)
    return {
        Path(result.log_dir).name: (
            result.error_code,
            sum(len(topic.partitions) for topic in result.topics),
        )
        for result in reply.results
    }


def test_new_partitions_go_where_there_are_fewest(tmp_path: Path) -> None:
    broker = Broker(tmp_path, directories=TWO)
    broker.create_topic("t", 3)
    broker.create_topic("u", 3)
    assert described(broker) == {"a": (0, 3), "b": (0, 3)}
    broker.delete_topic("t")
    broker.create_topic("v", 3)
    assert described(broker) == {"a": (0, 3), "b": (0, 3)}
    broker.close()


def test_a_partition_is_found_wherever_it_lies(tmp_path: Path) -> None:
    first = Broker(tmp_path, directories=TWO)
    first.create_topic("t", 2)
    for index in range(2):
        produce(first, "t", produced(3), index=index)
    moved = index_in(first, "a")
    first.close()
    (tmp_path / "a" / f"t-{moved}").rename(tmp_path / "b" / f"t-{moved}")
    second = Broker(tmp_path, directories=TWO)
    second.create_topic("t", 2)
    assert [home_of(second, "t", index) for index in range(2)] == ["b", "b"]
    assert [second.partition("t", index).log.end_offset for index in range(2)] == [3, 3]
    second.close()


def test_a_directory_that_cannot_be_had_leaves_the_others(tmp_path: Path) -> None:
    first = Broker(tmp_path, directories=TWO)
    first.create_topic("t", 4)
    lost = index_in(first, "b")
    kept = index_in(first, "a")
    first.close()
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "b").write_text("no directory")
    second = Broker(tmp_path, directories=TWO)
    second.create_topic("t", 4)  # as the metadata says at a start
    assert code_of(second, "t", kept) == ErrorCode.NONE
    assert code_of(second, "t", lost) == ErrorCode.KAFKA_STORAGE_ERROR  # and is not made anew
    second.create_topic("new", 2)
    assert [home_of(second, "new", index) for index in range(2)] == ["a", "a"]
    assert described(second)["b"] == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
    second.close()


def test_a_partition_that_cannot_be_opened_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again with each change of its topic."""
    first = Broker(tmp_path, directories=TWO)
    first.create_topic("t", 4)
    first.close()
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "b").write_text("no directory")
    second = Broker(tmp_path, directories=TWO)
    second.create_topic("t", 4)
    topic = second.services.image.topics_by_name["t"]
    for epoch in (1, 2):
        changed = [replace(one, partition_epoch=epoch) for one in topic.partitions]
        second.change_topic(replace(topic, partitions=tuple(changed)))
    told = [one.getMessage() for one in caplog.records if "state=offline" in one.getMessage()]
    assert len([one for one in told if one.startswith("partition=")]) == 2
    second.close()


Scenario = Callable[[Broker, WatchedDisk], Coroutine[Any, Any, None]]


def run(path: Path, scenario: Scenario, *, directories: tuple[str, ...] = TWO) -> None:
    async def whole() -> None:
        disk = WatchedDisk()
        broker = Broker(path, disk=disk, directories=directories)
        try:
            await asyncio.wait_for(scenario(broker, disk), 120)
        finally:
            broker.directories.abandon()

    asyncio.run(whole())


async def sent(broker: Broker, index: int) -> int:
    request = produce_request("t", produced(), index=index, acks=1)
    answer = broker.send(produce_api.API, request, version=9)
    if not isinstance(answer, ProduceResponse):
        assert answer is not None
        waiting = asyncio.ensure_future(answer)
        await broker.partitions.sync_wanted()
        answer = await waiting
    assert isinstance(answer, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def test_a_failed_sync_takes_its_directory_offline_for_good(tmp_path: Path) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t", 4, config=FSYNC)
        bad, good = index_in(broker, "b"), index_in(broker, "a")
        disk.failing = [str(tmp_path / "b")]
        assert await sent(broker, bad) == ErrorCode.KAFKA_STORAGE_ERROR
        disk.failing = []  # a second sync would succeed, and mean nothing
        assert await sent(broker, bad) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await sent(broker, good) == ErrorCode.NONE
        assert described(broker) == {"a": (0, 2), "b": (ErrorCode.KAFKA_STORAGE_ERROR, 0)}
        broker.partitions.check()
        reply = broker.send(metadata.API, MetadataRequest(topics=None), version=9)
        assert isinstance(reply, MetadataResponse)
        told = {one.partition_index: one for one in reply.topics[0].partitions}
        assert told[bad].error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (told[bad].leader_id, told[bad].offline_replicas) == (-1, [NODE])
        assert (told[good].error_code, told[good].leader_id) == (ErrorCode.NONE, NODE)
        assert told[good].offline_replicas == []

    run(tmp_path, scenario)


def test_a_sync_that_cannot_be_noted_for_want_of_room_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again every second. The leader epochs of the log are to be noted."""

    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t", 1)
        partition = broker.partition("t")
        partition.append(produced(), all_acks=False, now_ms=NOW_MS)
        disk.full = True
        for _ in range(3):
            broker.partitions.want_sync(partition)
            await broker.partitions.sync_wanted()
        assert partition.log.recovery_point == 0
        assert len([one for one in caplog.messages if "synced=unnoted" in one]) == 1
        disk.full = False
        broker.partitions.want_sync(partition)
        await broker.partitions.sync_wanted()
        assert partition.log.recovery_point == 1

    run(tmp_path, scenario)


def test_a_failed_write_takes_its_directory_offline(tmp_path: Path) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t", 4)
        bad, good = index_in(broker, "b"), index_in(broker, "a")
        log = broker.partition("t", bad).log
        end_offset = log.end_offset
        log.segments[-1].file.spoil(INPUT_OUTPUT_ERROR)  # type: ignore[attr-defined]
        assert await sent(broker, bad) == ErrorCode.KAFKA_STORAGE_ERROR
        assert log.end_offset == end_offset
        assert "b" in {Path(path).name for path in broker.directories.failed}
        assert await sent(broker, good) == ErrorCode.NONE

    run(tmp_path, scenario)


def test_a_deleted_topic_of_a_failed_directory_can_be_made_again(tmp_path: Path) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t", 2)
        broker.partitions.take_offline(str(tmp_path / "b"), DiskError("b", "gone"))
        broker.delete_topic("t")
        broker.create_topic("t", 2)
        assert [code_of(broker, "t", index) for index in range(2)] == [ErrorCode.NONE] * 2

    run(tmp_path, scenario)


def test_nobody_is_named_as_coordinator_of_what_lies_in_a_failed_directory(tmp_path: Path) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic(OFFSETS_TOPIC, 2)
        bad = index_in(broker, "b", OFFSETS_TOPIC)
        by_partition = {partition_of(name, partition_count=2): name for name in ("g", "h")}
        broker.partitions.take_offline(str(tmp_path / "b"), DiskError("b", "gone"))
        request = FindCoordinatorRequest(
            coordinator_keys=[by_partition[bad], by_partition[1 - bad]]
        )
        reply = broker.ask(find_coordinator.API, request, FindCoordinatorResponse, version=4)
        found = [(one.error_code, one.node_id) for one in reply.coordinators]
        assert found == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1), (ErrorCode.NONE, NODE)]

    run(tmp_path, scenario)


def test_without_any_directory_left_the_node_ends(tmp_path: Path) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t", config=FSYNC)
        disk.failing = [str(tmp_path)]
        broker.send(produce_api.API, produce_request("t", produced(), acks=0), version=9)
        with pytest.raises(DirectoryLost):
            await broker.partitions.sync_wanted()

    run(tmp_path, scenario, directories=("only",))


def test_the_directory_of_a_new_replica_is_told_after_it_has_failed(tmp_path: Path) -> None:
    """The controller knows by it that the replica is gone, also if the partition changes first."""

    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t", 2)
        bad = index_in(broker, "b")
        name = TopicPartition("t", bad)
        broker.partitions.take_offline(str(tmp_path / "b"), DiskError("b", "gone"))
        assert broker.assignments.wanted_of(name) == b"b" * 16
        topic = broker.services.image.topics_by_name["t"]
        changed = [replace(one, partition_epoch=1) for one in topic.partitions]
        broker.change_topic(replace(topic, partitions=tuple(changed)))
        assert broker.assignments.wanted_of(name) == b"b" * 16

    run(tmp_path, scenario)


def test_the_directory_of_a_log_that_lacked_room_is_told_after_it_has_failed() -> None:
    disk = MemoryDisk()
    broker = Broker(Path("/"), disk=disk, directories=TWO)
    broker._apply(Delta())
    disk.faults.full = True
    broker.create_topic("t", 2)
    disk.faults.full = False
    broker.partitions.take_offline("/b", DiskError("/b", "gone"))
    Reopening(partitions=broker.partitions, publish=broker._apply).try_again()
    wanted = [broker.assignments.wanted_of(TopicPartition("t", index)) for index in (0, 1)]
    assert sorted(one or b"" for one in wanted) == [b"a" * 16, b"b" * 16]


def test_a_replica_that_is_made_anew_is_told_to_be_where_it_is(tmp_path: Path) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t", 2)
        bad = index_in(broker, "b")
        broker.partitions.take_offline(str(tmp_path / "b"), DiskError("b", "gone"))
        topic = broker.services.image.topics_by_name["t"]
        for replicas in ((OTHER,), (OTHER, NODE)):
            changed = [
                replace(one, leader=OTHER, replicas=replicas, isr=(OTHER,))
                for one in topic.partitions
            ]
            broker.change_topic(replace(topic, partitions=tuple(changed)))
        assert broker.assignments.wanted_of(TopicPartition("t", bad)) == b"a" * 16

    run(tmp_path, scenario)
