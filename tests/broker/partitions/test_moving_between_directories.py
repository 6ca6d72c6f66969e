"""A replica moves to another directory of its broker while it is read and written."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.api import alter_replica_log_dirs, describe_log_dirs
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from penstock.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from penstock.world.errors import DiskError
from rig.logs import values
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker
from rig.watched_disk import WatchedDisk

TWO = ("a", "b")
IDS = {"a": b"a" * 16, "b": b"b" * 16, "c": b"c" * 16}
NAME = TopicPartition("t", 0)
WAIT_S = 60

Scenario = Callable[[Broker], Coroutine[Any, Any, None]]


def run(path: Path, scenario: Scenario, *, directories: tuple[str, ...] = TWO) -> None:
    async def whole() -> None:
        broker = Broker(path, disk=WatchedDisk(), directories=directories)
        moving = asyncio.create_task(broker.moves.run())
        try:
            async with asyncio.timeout(WAIT_S):
                await scenario(broker)
            broker.partitions.check()
            broker.moves.check()
        finally:
            moving.cancel()
            broker.directories.abandon()

    asyncio.run(whole())


def create(broker: Broker) -> None:
    broker.create_topic("t")
    assign(broker, home_of(broker))


def assign(broker: Broker, home: str) -> None:
    """The metadata name this directory from now on."""
    topic = broker.services.image.topics_by_name["t"]
    partition = replace(topic.partitions[0], directories=(IDS[home],))
    broker.change_topic(replace(topic, partitions=(partition,)))


def home_of(broker: Broker) -> str:
    return Path(broker.partition("t").log.directory).parent.name


def names(path: Path, home: str) -> list[str]:
    return sorted(one.name for one in (path / home).iterdir() if one.name.startswith("t-0"))


def move(broker: Broker, path: Path, home: str, name: str = "t") -> ErrorCode:
    return broker.moves.move(TopicPartition(name, 0), str(path / home))


def write(broker: Broker, batches: int = 1) -> None:
    for _ in range(batches):
        broker.partition("t").append(produced(3), all_acks=False, now_ms=NOW_MS)


def write_segments(broker: Broker) -> None:
    for _ in range(7):
        write(broker, 100)
        broker.partition("t").log.roll()


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(0.005)


def wanted(broker: Broker) -> bytes | None:
    """What the controller is to be told."""
    return broker.assignments.wanted_of(NAME)


async def copied(broker: Broker) -> None:
    """Everything is in the future log, and the controller is to be told."""
    await until(lambda: wanted(broker) is not None)


def test_a_replica_goes_on_in_the_other_directory(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        write_segments(broker)
        partition = broker.partition("t")
        assert home_of(broker) == "a"
        before = values(partition.log)
        assert move(broker, tmp_path, "b") is ErrorCode.NONE
        await copied(broker)
        assert wanted(broker) == IDS["b"]
        assert home_of(broker) == "a"  # until the metadata say so
        write(broker)
        assign(broker, "b")
        await until(lambda: home_of(broker) == "b")
        assert broker.partition("t") is partition
        assert values(partition.log)[: len(before)] == before
        write(broker)
        assert partition.high_watermark == 3 * 702
        assert names(tmp_path, "b") == ["t-0"]
        assert [one.endswith("-delete") for one in names(tmp_path, "a")] == [True]
        assert wanted(broker) is None

    run(tmp_path, scenario)


def test_what_was_moved_is_there_after_a_stop_and_a_start(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        write(broker, 5)
        move(broker, tmp_path, "b")
        await copied(broker)
        assign(broker, "b")
        await until(lambda: home_of(broker) == "b")
        write(broker, 1)
        broker.close()

    run(tmp_path, scenario)
    again = Broker(tmp_path, directories=TWO)
    again.create_topic("t")
    assert home_of(again) == "b"
    assert again.partition("t").log.end_offset == 18
    again.close()


def test_the_copy_is_named_as_kafka_names_it_and_described(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        write(broker, 10)
        broker.moves.limit(0)
        move(broker, tmp_path, "b")
        (name,) = names(tmp_path, "b")
        start, middle, ending = name[: len("t-0.")], name[4:-7], name[-7:]
        assert (start, ending, len(middle)) == ("t-0.", "-future", 32)
        request = DescribeLogDirsRequest(topics=None)
        reply = broker.send(describe_log_dirs.API, request, version=4)
        assert isinstance(reply, DescribeLogDirsResponse)
        described = {
            (Path(one.log_dir).name, part.is_future_key): (part.offset_lag, part.partition_size)
            for one in reply.results
            for topic in one.topics
            for part in topic.partitions
        }
        size = broker.partition("t").log.size_bytes
        assert described == {("a", False): (0, size), ("b", True): (30, 0)}

    run(tmp_path, scenario)


def test_a_move_back_ends_it(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        write(broker, 10)
        move(broker, tmp_path, "b")
        await copied(broker)
        assert move(broker, tmp_path, "a") is ErrorCode.NONE
        assert wanted(broker) is None
        assert [one.endswith("-delete") for one in names(tmp_path, "b")] == [True]
        # What was told of it may take effect yet, and is taken back.
        assign(broker, "b")
        assert wanted(broker) == IDS["a"]
        assert home_of(broker) == "a"
        assert not broker.moves.is_moving(NAME)

    run(tmp_path, scenario)


def test_a_move_to_a_third_directory_ends_the_first(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        write(broker, 10)
        move(broker, tmp_path, "b")
        await copied(broker)
        assert move(broker, tmp_path, "c") is ErrorCode.NONE
        await until(lambda: wanted(broker) == IDS["c"])
        assign(broker, "c")
        await until(lambda: home_of(broker) == "c")
        assert [one.endswith("-delete") for one in names(tmp_path, "b")] == [True]

    run(tmp_path, scenario, directories=("a", "b", "c"))


def test_a_deleted_topic_takes_its_copy_along(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        write(broker, 3)
        broker.moves.limit(0)
        move(broker, tmp_path, "b")
        broker.delete_topic("t")
        assert not broker.moves.is_moving(NAME)
        assert [one.endswith("-delete") for one in names(tmp_path, "b")] == [True]

    run(tmp_path, scenario)


def test_what_cannot_be_moved_is_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        assert move(broker, tmp_path, "x") is ErrorCode.LOG_DIR_NOT_FOUND
        assert move(broker, tmp_path, "a") is ErrorCode.NONE  # it is there
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert move(broker, tmp_path, "b", "unknown") is unknown
        assert move(broker, tmp_path, "b", "n" * 249) is ErrorCode.INVALID_TOPIC_EXCEPTION
        broker.create_topic("elsewhere", leader=OTHER, replicas=(OTHER,))
        assert move(broker, tmp_path, "b", "elsewhere") is ErrorCode.REPLICA_NOT_AVAILABLE
        broker.partitions.take_offline(str(tmp_path / "b"), DiskError("b", "gone"))
        assert move(broker, tmp_path, "b") is ErrorCode.KAFKA_STORAGE_ERROR
        assert names(tmp_path, "b") == []
        assert not broker.moves.is_moving(NAME)

    run(tmp_path, scenario)


def test_a_replica_that_comes_later_is_made_where_it_was_wanted(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        for home in TWO:
            name = f"to-{home}"
            broker.create_topic(name, leader=OTHER, replicas=(OTHER,))
            assert move(broker, tmp_path, home, name) is ErrorCode.REPLICA_NOT_AVAILABLE
            topic = broker.services.image.topics_by_name[name]
            partition = replace(topic.partitions[0], replicas=(OTHER, NODE))
            broker.change_topic(replace(topic, partitions=(partition,)))
            replica = broker.partitions.replica(TopicPartition(name, 0))
            assert replica is not None
            assert Path(replica.log.directory).parent.name == home

    run(tmp_path, scenario)


def test_a_follower_is_moved_as_well(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        write(broker, 4)
        move(broker, tmp_path, "b")
        await copied(broker)
        topic = broker.services.image.topics_by_name["t"]
        partition = replace(
            topic.partitions[0],
            replicas=(OTHER, NODE),
            isr=(OTHER, NODE),
            leader=OTHER,
            leader_epoch=LeaderEpoch(7),
            partition_epoch=7,
            directories=(IDS["c"], IDS["b"]),
        )
        broker.change_topic(replace(topic, partitions=(partition,)))
        follower = broker.partitions.replica(NAME)
        assert follower is not None
        await until(lambda: Path(follower.log.directory).parent.name == "b")
        assert follower.log.end_offset == 12

    run(tmp_path, scenario)


@pytest.mark.parametrize("state", ["elr", "last_known_elr"])
def test_a_replica_that_may_be_elected_by_its_directory_stays_for_now(
    tmp_path: Path, state: str
) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        write(broker, 4)
        topic = broker.services.image.topics_by_name["t"]
        eligible = replace(
            topic.partitions[0],
            replicas=(NODE, OTHER),
            isr=(OTHER,),
            directories=(IDS["a"], IDS["c"]),
            partition_epoch=1,
            **{state: (NODE,)},  # type: ignore[arg-type]
        )
        broker.change_topic(replace(topic, partitions=(eligible,)))
        move(broker, tmp_path, "b")
        future = broker.directories.future_of(NAME)
        assert future is not None
        await until(lambda: future.end_offset == 12)
        await asyncio.sleep(0.1)
        assert wanted(broker) is None
        in_sync = replace(eligible, isr=(OTHER, NODE), partition_epoch=2, **{state: ()})  # type: ignore[arg-type]
        broker.change_topic(replace(topic, partitions=(in_sync,)))
        await copied(broker)
        assert wanted(broker) == IDS["b"]

    run(tmp_path, scenario)


def test_records_that_are_deleted_meanwhile_do_not_come_back(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        write_segments(broker)
        move(broker, tmp_path, "b")
        await copied(broker)
        broker.partition("t").advance_start(Offset(1500))
        assign(broker, "b")
        await until(lambda: home_of(broker) == "b")
        assert broker.partition("t").log.start_offset == 1500
        broker.directories.abandon()
        again = Broker(tmp_path, directories=TWO)
        again.create_topic("t")
        assert again.partition("t").log.start_offset == 1500
        again.directories.abandon()

    run(tmp_path, scenario)


def test_a_failed_target_leaves_the_replica_where_it_is(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        write(broker, 4)
        move(broker, tmp_path, "b")
        await copied(broker)
        assign(broker, "b")  # decided, and the directory fails before the next turn
        broker.partitions.take_offline(str(tmp_path / "b"), DiskError("b", "gone"))
        assert wanted(broker) == IDS["a"]
        assert not broker.moves.is_moving(NAME)
        write(broker)
        assert home_of(broker) == "a"

    run(tmp_path, scenario)


def test_a_replica_whose_directory_fails_during_its_move_fails_with_it(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        broker.create_topic("first")  # in the directory of the metadata
        create(broker)
        assert home_of(broker) == "b"
        write(broker, 4)
        move(broker, tmp_path, "a")
        await copied(broker)
        assign(broker, "a")
        broker.partitions.take_offline(str(tmp_path / "b"), DiskError("b", "gone"))
        assert broker.partitions.find("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert wanted(broker) == IDS["b"]
        (left,) = names(tmp_path, "a")
        assert left.endswith("-future")  # for the next start

    run(tmp_path, scenario)


def test_the_copy_keeps_to_its_rate(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        write(broker, 300)
        size = broker.partition("t").log.size_bytes
        broker.moves.limit(size)
        started_ms = broker.world.clock.monotonic_ms()
        move(broker, tmp_path, "b")
        await copied(broker)
        took_ms = broker.world.clock.monotonic_ms() - started_ms
        # All of it at the rate takes a second, less the credit of what was not used at first.
        assert took_ms >= 800

    run(tmp_path, scenario)


def test_the_request_answers_for_each_partition(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        create(broker)
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=str(tmp_path / "b"),
                    topics=[AlterReplicaLogDirTopic(name="t", partitions=[0, 5])],
                )
            ]
        )
        answer = broker.send(alter_replica_log_dirs.API, request, version=2)
        assert answer is not None
        reply = await answer  # type: ignore[misc]
        assert isinstance(reply, AlterReplicaLogDirsResponse)
        (topic,) = reply.results
        assert topic.topic_name == "t"
        told = {one.partition_index: one.error_code for one in topic.partitions}
        assert told == {0: ErrorCode.NONE, 5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert broker.moves.is_moving(NAME)

    run(tmp_path, scenario)
