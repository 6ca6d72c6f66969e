"""What a restart changes: after a clean stop nothing, after a crash the epochs of the leaders."""

import asyncio
import shutil
from pathlib import Path

import pytest

from penstock.metadata.image.image import Image
from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.node.build import OpenNode, build
from penstock.node.config import NodeConfig
from penstock.node.lifecycle import Node
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.world.real import real_world


def config(data: Path, *, directories: int = 1) -> NodeConfig:
    values = {"listeners": "PLAINTEXT://127.0.0.1:0"}
    if directories > 1:
        values["log.dirs"] = ",".join(str(data / str(index)) for index in range(directories))
    return NodeConfig(node_id=NodeId(1), data_directory=str(data), settings=parse_broker(values))


async def started(given: NodeConfig) -> tuple[Node, OpenNode]:
    node = build(real_world(inline=True), given)
    await node.start()
    running = node._running
    assert isinstance(running, OpenNode)
    return node, running


def image_of(running: OpenNode) -> Image:
    return running.local.image


async def create_topic(running: OpenNode) -> None:
    topic = CreatableTopic(name="orders", num_partitions=3, replication_factor=1)
    reply = await running.controller.ask(CreateTopicsRequest(topics=[topic]))
    assert reply.topics[0].error_code == 0


def leader_epochs(running: OpenNode) -> list[int]:
    partitions = image_of(running).topics_by_name["orders"].partitions
    return [partition.leader_epoch for partition in partitions]


@pytest.mark.parametrize("directories", [1, 2])
def test_after_a_clean_stop_partitions_are_led_in_the_same_epochs(
    tmp_path: Path, directories: int
) -> None:
    async def scenario() -> None:
        given = config(tmp_path, directories=directories)
        node, running = await started(given)
        await create_topic(running)
        await node.stop()
        for _ in range(3):
            node, running = await started(given)
            assert leader_epochs(running) == [0, 0, 0]
            await node.stop()

    asyncio.run(scenario())


def test_after_a_crash_partitions_are_led_in_new_epochs(tmp_path: Path) -> None:
    async def scenario() -> None:
        node, running = await started(config(tmp_path))
        await create_topic(running)
        before = leader_epochs(running)
        for _ in range(2):
            await node.kill()
            node, running = await started(config(tmp_path))
            after = leader_epochs(running)
            assert all(new > old for new, old in zip(after, before, strict=True))
            before = after
        await node.stop()
        node, running = await started(config(tmp_path))
        assert leader_epochs(running) == before
        await node.stop()

    asyncio.run(scenario())


def test_a_directory_that_was_not_part_of_the_clean_stop_makes_it_unclean(tmp_path: Path) -> None:
    async def scenario() -> None:
        node, running = await started(config(tmp_path, directories=2))
        await create_topic(running)
        await node.stop()
        node, running = await started(config(tmp_path, directories=3))
        assert leader_epochs(running) == [2, 2, 2]
        await node.stop()

    asyncio.run(scenario())


def test_a_partition_that_is_gone_makes_the_stop_unclean(tmp_path: Path) -> None:
    async def scenario() -> None:
        node, running = await started(config(tmp_path))
        await create_topic(running)
        await node.stop()
        shutil.rmtree(tmp_path / "node-1" / "orders-1")
        node, running = await started(config(tmp_path))
        assert leader_epochs(running) == [2, 2, 2]
        await node.stop()

    asyncio.run(scenario())


def test_a_marker_that_names_no_epoch_does_not_count(tmp_path: Path) -> None:
    async def scenario() -> None:
        node, running = await started(config(tmp_path))
        await create_topic(running)
        await node.stop()
        (tmp_path / "node-1" / ".kafka_cleanshutdown").write_text("")  # as Kafka wrote it once
        node, running = await started(config(tmp_path))
        assert leader_epochs(running) == [2, 2, 2]
        await node.stop()

    asyncio.run(scenario())
