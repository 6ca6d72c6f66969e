"""The controller in the process: durable before visible, visible before answered."""

import asyncio
from collections.abc import Sequence

import pytest

from penstock.broker.api.create_topics import API as CREATE_TOPICS
from penstock.model.error import ErrorCode
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.world.errors import DiskError
from penstock.world.ports import File
from rig.control import Control, run_with
from rig.memory_disk import MemoryDisk


class SlowDisk(MemoryDisk):
    """A disk whose sync takes as long as the test wants, and may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: asyncio.Event | None = None
        self.syncs = 0
        self.broken = False

    async def sync(self, files: Sequence[File]) -> None:
        self.syncs += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.broken:
            raise DiskError(files[0].path, "input/output error")
        await super().sync(files)


def create(*names: str, timeout_ms: int = 60_000, config: str | None = None) -> CreateTopicsRequest:
    configs = [] if config is None else [CreatableTopicConfig(name="retention.ms", value=config)]
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
            for name in names
        ],
        timeout_ms=timeout_ms,
    )


async def code_of(control: Control, request: CreateTopicsRequest) -> int:
    reply = await control.ask(CREATE_TOPICS, request, CreateTopicsResponse)
    return reply.topics[0].error_code


async def settled() -> None:
    """Lets every task run until it waits for something."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_nothing_is_visible_or_answered_before_it_is_synced() -> None:
    disk = SlowDisk()

    async def scenario(control: Control) -> None:
        disk.gate = asyncio.Event()
        asked = asyncio.create_task(code_of(control, create("orders")))
        await settled()
        assert not asked.done()
        assert "orders" not in control.image.topics_by_name
        disk.gate.set()
        assert await asked == ErrorCode.NONE
        assert "orders" in control.image.topics_by_name

    run_with(disk, scenario)


def test_those_who_ask_while_a_sync_runs_share_the_next_one() -> None:
    disk = SlowDisk()

    async def scenario(control: Control) -> None:
        disk.gate = asyncio.Event()
        before = disk.syncs
        first = asyncio.create_task(code_of(control, create("first")))
        await settled()
        others = [
            asyncio.create_task(code_of(control, create(f"other-{index}"))) for index in range(20)
        ]
        await settled()
        disk.gate.set()
        assert await asyncio.gather(first, *others) == [0] * 21
        assert disk.syncs - before == 2

    run_with(disk, scenario)


def test_a_refusal_waits_for_what_it_stands_on() -> None:
    disk = SlowDisk()

    async def scenario(control: Control) -> None:
        disk.gate = asyncio.Event()
        made = asyncio.create_task(code_of(control, create("orders")))
        refused = asyncio.create_task(code_of(control, create("orders")))
        await settled()
        assert not refused.done()
        disk.gate.set()
        assert await made == ErrorCode.NONE
        assert await refused == ErrorCode.TOPIC_ALREADY_EXISTS

    run_with(disk, scenario)


def test_a_client_that_goes_away_does_not_undo_what_it_asked_for() -> None:
    disk = SlowDisk()

    async def scenario(control: Control) -> None:
        disk.gate = asyncio.Event()
        asked = asyncio.create_task(code_of(control, create("orders")))
        await settled()
        asked.cancel()
        disk.gate.set()
        await settled()
        assert "orders" in control.image.topics_by_name

    run_with(disk, scenario)


def test_a_deadline_that_passes_is_answered_and_the_topic_still_comes() -> None:
    disk = SlowDisk()

    async def scenario(control: Control) -> None:
        disk.gate = asyncio.Event()
        assert await code_of(control, create("orders", timeout_ms=5)) == (
            ErrorCode.REQUEST_TIMED_OUT
        )
        assert "orders" not in control.image.topics_by_name
        disk.gate.set()
        await settled()
        assert "orders" in control.image.topics_by_name

    run_with(disk, scenario)


def test_a_failed_sync_ends_the_controller_and_is_not_tried_again() -> None:
    disk = SlowDisk()

    async def scenario(control: Control) -> None:
        disk.broken = True
        before = disk.syncs
        await code_of(control, create("orders"))
        assert disk.syncs == before + 1

    with pytest.raises(DiskError, match="input/output error"):
        run_with(disk, scenario)


def test_a_full_disk_is_an_answer_and_changes_nothing() -> None:
    disk = MemoryDisk()

    async def scenario(control: Control) -> None:
        disk.faults.fail_at = disk.faults.calls
        assert await code_of(control, create("orders")) == ErrorCode.KAFKA_STORAGE_ERROR
        assert control.image.topics_by_name == {}
        assert await code_of(control, create("orders")) == ErrorCode.NONE

    run_with(disk, scenario)


def test_a_request_too_large_for_one_batch_is_refused() -> None:
    async def scenario(control: Control) -> None:
        huge = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="orders",
                    num_partitions=1,
                    replication_factor=1,
                    configs=[
                        CreatableTopicConfig(
                            name="leader.replication.throttled.replicas",
                            value=",".join(["0:1"] * 8000),
                        )
                    ]
                    * 300,
                )
            ]
        )
        assert await code_of(control, huge) == ErrorCode.POLICY_VIOLATION
        assert control.image.topics_by_name == {}

    run_with(MemoryDisk(), scenario)


def test_after_the_end_nobody_hangs() -> None:
    async def scenario(control: Control) -> None:
        await control.controller.close()
        assert await code_of(control, create("orders")) == ErrorCode.NOT_CONTROLLER

    run_with(MemoryDisk(), scenario)


def test_the_published_image_carries_offset_and_epoch() -> None:
    async def scenario(control: Control) -> None:
        await code_of(control, create("orders"))
        assert control.image.offset == control.log.end_offset
        assert control.image.epoch == 1

    run_with(MemoryDisk(), scenario)
