"""Retention as a broker carries it out, round by round."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.broker.partitions.retention import Retention
from penstock.log.directory import LogDirectory
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.world.errors import DiskError
from rig.data_requests import produce
from rig.produced import NOW_MS, produced
from rig.services import Broker

HOUR_MS = 3_600_000


class LaterClock:
    """So much later than the records say."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        return NOW_MS + self._by_ms

    def monotonic_ms(self) -> int:
        return self._by_ms

    def monotonic_us(self) -> int:
        return self._by_ms * 1000


def retention(broker: Broker, *, later_ms: int = 0) -> Retention:
    return Retention(
        partitions=broker.partitions,
        settings=broker.settings,
        world=replace(broker.world, clock=LaterClock(later_ms)),
    )


def expire(broker: Broker, *, later_ms: int = 0) -> None:
    asyncio.run(retention(broker, later_ms=later_ms).expire())
    broker.partitions.check()


def log_of(broker: Broker, topic: str = "t", index: int = 0) -> PartitionLog:
    return broker.partition(topic, index).log


def fill(broker: Broker, topic: str = "t", *, segments: int = 3, index: int = 0) -> None:
    """Ten records a segment, the last of which is active."""
    for number in range(segments):
        if number > 0:
            log_of(broker, topic, index).roll()
        produce(broker, topic, produced(10), index=index)


def test_old_records_go_with_their_active_segment(broker: Broker) -> None:
    broker.create_topic("t", config={"retention.ms": str(HOUR_MS)})
    fill(broker)
    expire(broker)
    assert log_of(broker).start_offset == 0
    expire(broker, later_ms=2 * HOUR_MS)
    log = log_of(broker)
    assert (log.start_offset, log.end_offset, len(log.segments)) == (30, 30, 1)
    produce(broker, "t", produced(10))
    assert log.end_offset == 40


@pytest.mark.parametrize("delay_ms, is_gone", [(0, True), (60_000, False)])
def test_the_first_round_waits_as_long_as_it_is_told(
    broker: Broker, delay_ms: int, is_gone: bool
) -> None:
    broker.create_topic("t", config={"retention.ms": str(HOUR_MS)})
    fill(broker)
    rounds = Retention(
        partitions=broker.partitions,
        settings=replace(broker.settings, log_initial_task_delay_ms=delay_ms),
        world=replace(broker.world, clock=LaterClock(2 * HOUR_MS)),
    )

    async def some_turns() -> None:
        keeping = asyncio.create_task(rounds.keep())
        for _ in range(100):
            await asyncio.sleep(0)
        keeping.cancel()

    asyncio.run(some_turns())
    assert (log_of(broker).start_offset == 30) == is_gone


def test_surplus_records_go_until_the_size_is_right(broker: Broker) -> None:
    broker.create_topic("t", config={"retention.ms": "-1"})
    fill(broker, segments=4)
    segment_bytes = log_of(broker).segments[0].size_bytes
    broker.configure("t", {"retention.ms": "-1", "retention.bytes": str(2 * segment_bytes)})
    expire(broker)
    assert log_of(broker).start_offset == 20
    assert log_of(broker).size_bytes == 2 * segment_bytes


def test_a_change_of_settings_counts_from_the_next_round_on(broker: Broker) -> None:
    broker.create_topic("t", config={"retention.ms": "-1"})
    fill(broker)
    expire(broker, later_ms=HOUR_MS)
    assert log_of(broker).start_offset == 0
    broker.configure("t", {"retention.ms": "1000"})
    expire(broker, later_ms=HOUR_MS)
    assert log_of(broker).start_offset == 30


def test_a_compacted_topic_keeps_its_old_records_unless_it_says_delete_too(broker: Broker) -> None:
    limits = {"retention.ms": "1000", "retention.bytes": "1"}
    broker.create_topic("state", config={"cleanup.policy": "compact", **limits})
    broker.create_topic("both", config={"cleanup.policy": "compact,delete", **limits})
    for topic in ("state", "both"):
        fill(broker, topic)
    expire(broker, later_ms=HOUR_MS)
    assert log_of(broker, "state").start_offset == 0
    assert log_of(broker, "both").start_offset == 30


def test_the_start_lasts_through_a_kill_and_a_stop(tmp_path: Path) -> None:
    def opened() -> Broker:
        broker = Broker(tmp_path)
        broker.create_topic("t", config={"retention.ms": "1000"})
        return broker

    first = opened()
    fill(first)
    expire(first, later_ms=HOUR_MS)
    first.directories.abandon()
    second = opened()
    assert log_of(second).start_offset == 30
    second.close()
    third = opened()
    assert log_of(third).start_offset == 30
    third.close()


def test_the_starts_of_many_partitions_move_with_one_write(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[str] = []
    write_whole = broker.world.disk.write_whole

    def watched(path: str, data: bytes) -> None:
        writes.append(Path(path).name)
        write_whole(path, data)

    broker.create_topic("t", 20, config={"retention.ms": "1000"})
    for index in range(20):
        fill(broker, segments=2, index=index)
    monkeypatch.setattr(broker.world.disk, "write_whole", watched)
    expire(broker, later_ms=HOUR_MS)
    assert {log_of(broker, "t", index).start_offset for index in range(20)} == {20}
    assert writes.count("log-start-offset-checkpoint") == 1


def test_others_have_their_turn_while_many_segments_go(broker: Broker) -> None:
    broker.create_topic("t", 3, config={"retention.ms": "1000"})
    for index in range(3):
        fill(broker, segments=10, index=index)
    turns = 0

    async def scenario() -> None:
        nonlocal turns
        round_ = asyncio.create_task(retention(broker, later_ms=HOUR_MS).expire())
        while not round_.done():
            turns += 1
            await asyncio.sleep(0)
        round_.result()

    asyncio.run(scenario())
    assert turns >= 30


@pytest.mark.parametrize("turn", range(8))
def test_a_topic_deleted_during_a_round_does_no_harm(broker: Broker, turn: int) -> None:
    broker.create_topic("t", 2, config={"retention.ms": "1000"})
    for index in range(2):
        fill(broker, index=index)
    log = log_of(broker)

    async def scenario() -> None:
        round_ = asyncio.create_task(retention(broker, later_ms=HOUR_MS).expire())
        for _ in range(turn):
            await asyncio.sleep(0)
        broker.delete_topic("t")
        await round_

    asyncio.run(scenario())
    assert log.is_closed


def test_retention_lifted_during_a_round_keeps_what_is_left(broker: Broker) -> None:
    broker.create_topic("t", config={"retention.ms": "1000"})
    fill(broker)

    async def scenario() -> None:
        round_ = asyncio.create_task(retention(broker, later_ms=HOUR_MS).expire())
        await asyncio.sleep(0)
        broker.configure("t", {"retention.ms": "-1"})
        await round_

    asyncio.run(scenario())
    assert log_of(broker).start_offset == 0


def test_files_go_after_their_delay(broker: Broker) -> None:
    broker.create_topic("t", config={"retention.ms": "1000", "file.delete.delay.ms": "5000"})
    fill(broker)
    expire(broker, later_ms=HOUR_MS)
    data = Path(log_of(broker).directory)
    assert len(list(data.glob("*.log"))) == 1
    assert len(list(data.glob("*.log.deleted"))) == 3
    assert broker.directories.take_removable(now_ms=0) == []
    due = broker.directories.take_removable(now_ms=5000)
    assert {Path(path) for path in due} == set(data.glob("*.deleted"))


def fail(*, full: bool) -> Callable[[LogDirectory, Mapping[TopicPartition, Offset]], None]:
    def move_starts(self: LogDirectory, offsets: Mapping[TopicPartition, Offset]) -> None:
        raise DiskError(self.path, "planted", full=full)

    return move_starts


def test_a_full_disk_is_given_room(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create_topic("t", config={"retention.ms": "1000"})
    fill(broker)
    monkeypatch.setattr(LogDirectory, "move_starts", fail(full=True))
    expire(broker, later_ms=HOUR_MS)
    assert log_of(broker).start_offset == 30
    assert len(log_of(broker).segments) == 1


def test_a_disk_that_fails_takes_its_directory_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(tmp_path, directories=("a", "b"))
    broker.create_topic("t", 2, config={"retention.ms": "1000"})
    index = next(index for index in range(2) if "/b/" in log_of(broker, index=index).directory)
    fill(broker, index=index)
    monkeypatch.setattr(LogDirectory, "move_starts", fail(full=False))
    expire(broker, later_ms=HOUR_MS)
    assert broker.partitions.is_offline("t", index)
    assert not broker.partitions.is_offline("t", 1 - index)
    broker.close()


def test_a_segment_from_the_future_is_told_of_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("t", config={"retention.ms": "1000"})
    fill(broker)
    rounds = retention(broker, later_ms=-HOUR_MS)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            asyncio.run(rounds.expire())
    assert [line for line in caplog.messages if "future" in line] == [
        line for line in caplog.messages if "partition=t-0" in line
    ]
    assert len(caplog.messages) == 1
