"""A broker compacts the filthiest log first, and trouble with one is not the others'."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.broker.partitions.cleaning import Cleaning, limits_of
from penstock.log.checkpoint import decode_offsets
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.world.offload import ChildProcess
from penstock.world.ports import World
from rig.compacting import batch_of, seal, state, stored
from rig.logs import NOW_MS
from rig.services import Broker

COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact", "segment.ms": "86400000"}


def cleaning(broker: Broker, world: World | None = None) -> Cleaning:
    return Cleaning(
        partitions=broker.partitions,
        settings=lambda: broker.settings,
        world=world or broker.world,
    )


def filled(broker: Broker, name: str, *, sealed: int, clean: int = 0) -> PartitionLog:
    """A log with so many updates of one key that can be compacted."""
    broker.create_topic(name, config=COMPACTED)
    partition = broker.partition(name)
    log = partition.log
    updates = [(f"clean {number}", "x" * 100) for number in range(clean)]
    updates += [("key", f"{number}".ljust(100)) for number in range(sealed)]
    for number, update in enumerate(updates):
        if number == clean > 0:
            seal(log)
            log.cleaned_offset = log.end_offset
        batch = batch_of(update, base_offset=log.end_offset)
        partition.append_numbered([batch], now_ms=NOW_MS)
    seal(log)
    return log


def test_filthiest_log_goes_first_and_clean_ones_are_left_alone(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    tidy = filled(broker, "tidy", sealed=2, clean=8)
    dirty = filled(broker, "dirty", sealed=6, clean=4)
    filthy = filled(broker, "filthy", sealed=9, clean=1)
    cleaner = cleaning(broker)
    assert asyncio.run(cleaner.clean_filthiest())
    assert (filthy.cleaned_offset, dirty.cleaned_offset) == (10, 4)
    assert len(stored(filthy)) == 2
    assert asyncio.run(cleaner.clean_filthiest())
    assert dirty.cleaned_offset == 10
    assert not asyncio.run(cleaner.clean_filthiest())
    assert tidy.cleaned_offset == 8
    broker.directory.close()


def test_topic_that_is_not_compacted_is_left_alone(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    log = filled(broker, "orders", sealed=9)
    broker.configure("orders", {"cleanup.policy": "delete"})
    assert not asyncio.run(cleaning(broker).clean_filthiest())
    assert len(stored(log)) == 9
    broker.directory.close()


def test_work_is_done_by_a_helper_process(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    log = filled(broker, "orders", sealed=9)
    world = replace(broker.world, offload=ChildProcess())
    try:
        assert asyncio.run(cleaning(broker, world).clean_filthiest())
    finally:
        world.offload.close()
    assert len(stored(log)) == 1
    broker.directory.close()


def test_how_far_a_log_is_compacted_is_kept_in_kafkas_file(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    filled(broker, "orders", sealed=9)
    asyncio.run(cleaning(broker).clean_filthiest())
    broker.directory.save_checkpoints()
    path = tmp_path / "data" / "cleaner-offset-checkpoint"
    assert path.read_text() == "0\n1\norders 0 9\n"
    broker.delete_topic("orders")
    broker.create_topic("orders", config=COMPACTED)
    assert broker.partition("orders").log.cleaned_offset is None
    assert decode_offsets(str(path), path.read_bytes()) == {}
    broker.directory.close()


def test_damaged_log_is_named_once_and_the_others_are_compacted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(tmp_path)
    damaged = filled(broker, "damaged", sealed=9)
    sound = filled(broker, "sound", sealed=5)
    file = Path(damaged.directory) / "00000000000000000000.log"
    data = bytearray(file.read_bytes())
    data[200] ^= 1
    file.write_bytes(data)
    cleaner = cleaning(broker)
    with caplog.at_level(logging.ERROR):
        while asyncio.run(cleaner.clean_filthiest()):
            pass
    assert state(sound) == {"key": "4".ljust(100)}
    assert sound.cleaned_offset == 5
    [line] = [record.getMessage() for record in caplog.records]
    assert "partition=damaged-0 state=uncleanable" in line
    assert "the checksum does not match" in line
    assert not list(Path(damaged.directory).glob("*.cleaned"))
    broker.directory.close()


def test_log_deleted_while_it_is_compacted_ends_the_pass(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    filled(broker, "orders", sealed=9)

    async def scenario() -> None:
        pass_under_way = asyncio.create_task(cleaning(broker).clean_filthiest())
        await asyncio.sleep(0)
        broker.delete_topic("orders")
        await pass_under_way

    asyncio.run(scenario())
    assert TopicPartition("orders", 0) not in broker.directory.logs
    broker.directory.close()


@pytest.mark.parametrize("turns", range(8))
def test_log_cut_while_it_is_compacted_keeps_what_was_not_cut(turns: int, tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    log = filled(broker, "orders", sealed=4, clean=3)

    async def scenario() -> None:
        pass_under_way = asyncio.create_task(cleaning(broker).clean_filthiest())
        for _ in range(turns):
            await asyncio.sleep(0)
        log.truncate_to(Offset(5))
        await pass_under_way

    asyncio.run(scenario())
    log.check()
    assert {"clean 0", "clean 1", "clean 2"} <= state(log).keys()
    assert log.end_offset <= 5
    assert not list(Path(log.directory).glob("*.swap"))
    broker.directory.close()


def test_limits_are_those_of_the_settings(tmp_path: Path) -> None:
    broker = Broker(
        tmp_path,
        log_cleaner_dedupe_buffer_size="1000000",
        log_cleaner_io_buffer_load_factor="5",
        log_cleaner_io_max_bytes_per_second="2e6",
    )
    limits = limits_of(broker.settings)
    assert (limits.memory_bytes, limits.load_factor) == (1_000_000, 0.99)
    assert limits.bytes_per_second == 2e6
    broker.directory.close()
