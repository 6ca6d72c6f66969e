"""Whatever the moment of a crash: what a client was told about the cluster is still true."""

import asyncio
import contextlib
import random

import pytest

from penstock.broker.api.create_topics import API as CREATE_TOPICS
from penstock.broker.api.delete_topics import API as DELETE_TOPICS
from penstock.broker.api.incremental_alter_configs import API as ALTER
from penstock.broker.api.init_producer_id import API as INIT_PRODUCER_ID
from penstock.model.configs import ResourceKind
from penstock.wire.messages import incremental_alter_configs as alter
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from rig.control import Control, run_with
from rig.memory_disk import Crashed, MemoryDisk

DIRECTORY = "/data/__cluster_metadata-0"
CALLS_MAX = 1000
# A snapshot after nearly every change, so that crashes hit each step of making one and of trimming.
SNAPSHOTS = {"metadata_log_max_record_bytes_between_snapshots": "200"}


class Promises:
    """What clients were told, and what was asked for without an answer so far."""

    def __init__(self) -> None:
        self.topics: dict[str, bytes] = {}
        self.asked: set[str] = set()  # may or may not have happened
        self.deleted: set[bytes] = set()
        self.retention: dict[str, set[str | None]] = {}
        self.producer_ids: list[int] = []


async def scenario(control: Control, promises: Promises) -> None:
    for name in ("a", "b", "c"):
        await create(control, promises, name)
    await set_retention(control, promises, "a", "1000")
    promises.producer_ids.append(await producer_id(control))
    topic_id = promises.topics.pop("b")
    promises.asked.add("b")
    doomed = DeleteTopicState(topic_id=topic_id)
    request = DeleteTopicsRequest(topics=[doomed], timeout_ms=60_000)
    reply = await control.ask(DELETE_TOPICS, request, DeleteTopicsResponse)
    assert reply.responses[0].error_code == 0
    promises.deleted.add(topic_id)
    await create(control, promises, "b")
    await asyncio.gather(*(create(control, promises, f"many-{index}") for index in range(4)))
    await set_retention(control, promises, "a", "2000")


async def create(control: Control, promises: Promises, name: str) -> None:
    promises.asked.add(name)
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    reply = await control.ask(
        CREATE_TOPICS, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse
    )
    assert reply.topics[0].error_code == 0
    # Who was told that the topic exists must find it here at once.
    assert control.image.topics_by_name[name].topic_id == reply.topics[0].topic_id
    promises.topics[name] = reply.topics[0].topic_id
    promises.asked.discard(name)


async def set_retention(control: Control, promises: Promises, topic: str, value: str) -> None:
    promises.retention.setdefault(topic, {None}).add(value)
    resource = alter.AlterConfigsResource(
        resource_type=ResourceKind.TOPIC,
        resource_name=topic,
        configs=[alter.AlterableConfig(name="retention.ms", config_operation=0, value=value)],
    )
    reply = await control.ask(
        ALTER,
        alter.IncrementalAlterConfigsRequest(resources=[resource]),
        alter.IncrementalAlterConfigsResponse,
    )
    assert reply.responses[0].error_code == 0
    promises.retention[topic] = {value}


async def producer_id(control: Control) -> int:
    reply = await control.ask(
        INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id=None), InitProducerIdResponse
    )
    assert reply.error_code == 0
    return reply.producer_id


async def check(control: Control, promises: Promises) -> None:
    topics = control.image.topics_by_name
    for name, topic_id in promises.topics.items():
        assert topics[name].topic_id == topic_id
        assert len(topics[name].partitions) == 2
    assert set(topics) <= set(promises.topics) | promises.asked
    assert not promises.deleted & set(control.image.topics_by_id)
    for topic, values in promises.retention.items():
        config = control.image.config(ResourceKind.TOPIC, topic)
        assert config.get("retention.ms") in values
    assert await producer_id(control) not in promises.producer_ids


def run_until_crash(crash_at: int, **settings: str) -> tuple[MemoryDisk, Promises, bool]:
    disk = MemoryDisk()
    disk.faults.crash_at = crash_at
    promises = Promises()
    try:
        run_with(disk, lambda control: scenario(control, promises), **settings)
    except Crashed:
        return disk, promises, True
    return disk, promises, False


def test_what_was_answered_survives_a_kill_at_every_call() -> None:
    for crash_at in range(CALLS_MAX):
        disk, promises, crashed = run_until_crash(crash_at)
        run_with(disk.after_kill(), lambda control, told=promises: check(control, told))
        if not crashed:
            return
    pytest.fail("the scenario is longer than the test allows for")


@pytest.mark.parametrize("seed", range(3))
def test_what_was_answered_survives_a_power_loss_at_every_call(seed: int) -> None:
    chance = random.Random(seed)
    for crash_at in range(CALLS_MAX):
        disk, promises, crashed = run_until_crash(crash_at)
        left = disk.after_power_loss(chance)
        run_with(left, lambda control, told=promises: check(control, told))
        if not crashed:
            return
    pytest.fail("the scenario is longer than the test allows for")


def test_what_was_answered_survives_a_kill_while_snapshots_are_made() -> None:
    for crash_at in range(CALLS_MAX):
        disk, promises, crashed = run_until_crash(crash_at, **SNAPSHOTS)
        run_with(disk.after_kill(), lambda control, told=promises: check(control, told))
        if not crashed:
            assert any(name.endswith(".checkpoint") for name in disk.names(DIRECTORY))
            return
    pytest.fail("the scenario is longer than the test allows for")


def test_what_was_answered_survives_a_power_loss_while_snapshots_are_made() -> None:
    chance = random.Random(1)
    for crash_at in range(CALLS_MAX):
        disk, promises, crashed = run_until_crash(crash_at, **SNAPSHOTS)
        left = disk.after_power_loss(chance)
        # Crashes again at its start, with snapshots on both sides of it.
        left.faults.crash_at = crash_at % 40
        with contextlib.suppress(Crashed):
            run_with(left, lambda control, told=promises: check(control, told), **SNAPSHOTS)
        again = left.after_power_loss(chance)
        run_with(again, lambda control, told=promises: check(control, told), **SNAPSHOTS)
        if not crashed:
            return
    pytest.fail("the scenario is longer than the test allows for")


def test_each_start_leads_in_a_new_epoch() -> None:
    disk = MemoryDisk()

    async def epochs(control: Control) -> tuple[int, int]:
        if "a" not in control.image.topics_by_name:
            await create(control, Promises(), "a")
        return control.image.epoch, control.image.topics_by_name["a"].partitions[0].leader_epoch

    assert [run_with(disk, epochs) for _ in range(3)] == [(1, 0), (2, 2), (3, 4)]
