"""Whoever asks first for a group's coordinator gets an answer, and `__consumer_offsets` exists."""

import asyncio

import pytest

from penstock.broker.api.find_coordinator import API
from penstock.groups.partitioning import OFFSETS_TOPIC, java_hash, partition_of
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from rig.control import NODE, Control, run_with
from rig.memory_disk import MemoryDisk


async def find(control: Control, *groups: str, version: int = 6) -> FindCoordinatorResponse:
    request = (
        FindCoordinatorRequest(coordinator_keys=list(groups))
        if version >= 4
        else FindCoordinatorRequest(key=groups[0])
    )
    return await control.ask(API, request, FindCoordinatorResponse, version=version)


@pytest.mark.parametrize("version", range(API.versions.max + 1))
def test_every_version_names_the_broker_that_leads_the_groups_partition(version: int) -> None:
    async def scenario(control: Control) -> None:
        reply = await find(control, "group", version=version)
        found = reply.coordinators[0] if version >= 4 else reply
        assert found.error_code == ErrorCode.NONE
        assert (found.node_id, found.host, found.port) == (NODE, "localhost", 9092)

    run_with(MemoryDisk(), scenario)


def test_many_groups_are_found_at_once() -> None:
    async def scenario(control: Control) -> None:
        reply = await find(control, "one", "", "three")
        assert [found.key for found in reply.coordinators] == ["one", "", "three"]
        assert {found.error_code for found in reply.coordinators} == {ErrorCode.NONE}

    run_with(MemoryDisk(), scenario)


def test_the_topic_is_made_once_as_the_settings_say() -> None:
    async def scenario(control: Control) -> None:
        assert OFFSETS_TOPIC not in control.image.topics_by_name
        await asyncio.gather(*(find(control, "group") for _ in range(5)))
        topic = control.image.topics_by_name[OFFSETS_TOPIC]
        assert len(topic.partitions) == 7
        # Three replicas are wanted, and there is one broker.
        assert {partition.replicas for partition in topic.partitions} == {(NODE,)}
        assert control.image.config(ResourceKind.TOPIC, OFFSETS_TOPIC) == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "2097152",
        }
        assert sum(len(delta.topics_created) for delta in control.deltas) == 1

    settings = {
        "offsets_topic_num_partitions": "7",
        "offsets_topic_segment_bytes": "2097152",
    }
    run_with(MemoryDisk(), scenario, **settings)


def test_without_a_controller_clients_are_told_to_try_again() -> None:
    async def scenario(control: Control) -> None:
        await control.controller.close()
        reply = await find(control, "group")
        codes = [found.error_code for found in reply.coordinators]
        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    run_with(MemoryDisk(), scenario)


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("group", 98629247),
        ("payments-service", 332086293),
        ("gruppe-\u00e9\u4e2d", -595606474),
        ("\U0001f600", 1772899),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_groups_hash_as_in_java(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed
    assert 0 <= partition_of(text, partition_count=50) < 50


def test_the_smallest_hash_belongs_to_the_first_partition() -> None:
    assert partition_of("polygenelubricants", partition_count=50) == 0
