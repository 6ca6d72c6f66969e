"""Nodes that form one cluster: each is broker and controller, on real connections."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.client.network.errors import Refused
from penstock.metadata.image.image import Image
from penstock.model.identity import NodeId
from penstock.node.start_checks import LostMetadata
from penstock.wire.messages.unregister_broker import UnregisterBrokerRequest
from rig.node_cluster import NodeCluster, node_cluster


def in_a_cluster(
    path: Path, scenario: Callable[[NodeCluster], Awaitable[None]], *, nodes: int = 3
) -> None:
    async def whole() -> None:
        async with node_cluster(path, nodes) as cluster:
            await scenario(cluster)

    asyncio.run(whole())


def leaders_of(image: Image, topic: str) -> set[NodeId | None]:
    return {partition.leader for partition in image.topics_by_name[topic].partitions}


def has_topic(name: str) -> Callable[[Image], bool]:
    return lambda image: name in image.topics_by_name


def is_fenced(number: int, *, fenced: bool) -> Callable[[Image], bool]:
    return lambda image: image.brokers[NodeId(number)].fenced is fenced


def leads(number: int, topic: str, *, leads: bool) -> Callable[[Image], bool]:
    """False as well where the topic is not known yet."""
    return lambda image: (
        topic in image.topics_by_name and (NodeId(number) in leaders_of(image, topic)) is leads
    )


def test_a_topic_created_through_any_node_is_known_to_all(tmp_path: Path) -> None:
    async def scenario(cluster: NodeCluster) -> None:
        for number in (1, 2, 3):
            name = f"through-{number}"
            await cluster.create_topic(name, through=number)
            assert name in cluster.inside(number).local.image.topics_by_name
            await cluster.until(has_topic(name))
            assert leaders_of(cluster.inside(1).local.image, name) == {1, 2, 3}

    in_a_cluster(tmp_path, scenario)


def test_the_cluster_goes_on_when_the_active_controller_is_killed(tmp_path: Path) -> None:
    async def scenario(cluster: NodeCluster) -> None:
        names = set()
        for turn in range(4):
            active = await cluster.active()
            before, after = f"before-{turn}", f"after-{turn}"
            await cluster.create_topic(before, through=active)
            await cluster.kill(active)
            await cluster.create_topic(after, through=next(iter(cluster.running)))
            await cluster.until(is_fenced(active, fenced=True))
            await cluster.start(active)
            await cluster.until(is_fenced(active, fenced=False))
            names |= {before, after}
        await cluster.until(lambda image: set(image.topics_by_name) == names)

    in_a_cluster(tmp_path, scenario)


def test_a_node_that_stops_cleanly_gives_up_what_it_leads_and_takes_it_up_again(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: NodeCluster) -> None:
        await cluster.create_topic("orders", through=1, partitions=3)
        active = await cluster.active()
        for number in (active, active % 3 + 1):
            await cluster.stop(number)
            await cluster.until(leads(number, "orders", leads=False))
            await cluster.start(number)
            await cluster.until(leads(number, "orders", leads=True))

    in_a_cluster(tmp_path, scenario)


def test_more_replicas_than_there_can_be_are_refused(tmp_path: Path) -> None:
    async def scenario(cluster: NodeCluster) -> None:
        for through in (1, 2, 3):
            with pytest.raises(Refused, match="only 3 broker"):
                await cluster.create_topic("orders", through=through, replicas=4)
        assert not cluster.inside(1).local.image.topics_by_name

    in_a_cluster(tmp_path, scenario)


def test_every_controller_says_where_it_listens(tmp_path: Path) -> None:
    async def scenario(cluster: NodeCluster) -> None:
        await cluster.until(lambda image: set(image.controllers) == {1, 2, 3})
        await cluster.kill(2)
        before = cluster.inside(1).local.image.controllers[NodeId(2)]
        await cluster.start(2)
        await cluster.until(
            lambda image: image.controllers[NodeId(2)].incarnation != before.incarnation
        )
        after = cluster.inside(1).local.image.controllers[NodeId(2)]
        assert after.endpoints == before.endpoints

    in_a_cluster(tmp_path, scenario)


def test_requests_under_way_when_the_active_controller_is_killed_are_sent_to_the_next(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: NodeCluster) -> None:
        names = set()
        for turn in range(3):
            active = await cluster.active()
            others = [number for number in cluster.running if number != active]
            asked = {f"topic-{turn}-{index}": others[index % 2] for index in range(20)}
            async with asyncio.TaskGroup() as group:
                for name, through in asked.items():
                    group.create_task(cluster.create_topic(name, through=through, partitions=1))
                await asyncio.sleep(0)
                await cluster.kill(active)
            names |= asked.keys()
            await cluster.until(lambda image, names=set(names): names <= set(image.topics_by_name))
            await cluster.start(active)

    in_a_cluster(tmp_path, scenario)


def test_a_living_broker_that_is_unregistered_registers_again(tmp_path: Path) -> None:
    async def scenario(cluster: NodeCluster) -> None:
        before = cluster.inside(2).local.image.brokers[NodeId(2)].epoch
        await cluster.inside(1).controller.ask(UnregisterBrokerRequest(broker_id=2))
        await cluster.until(
            lambda image: (
                (broker := image.brokers.get(NodeId(2))) is not None
                and broker.epoch > before
                and not broker.fenced
            )
        )
        await cluster.create_topic("orders", through=2)
        await cluster.until(leads(2, "orders", leads=True))

    in_a_cluster(tmp_path, scenario)


def test_a_broker_that_had_to_register_again_has_lost_nothing_when_it_is_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: NodeCluster) -> None:
        before = cluster.inside(2).local.image.brokers[NodeId(2)].epoch
        await cluster.inside(1).controller.ask(UnregisterBrokerRequest(broker_id=2))
        await cluster.until(
            lambda image: (
                (broker := image.brokers.get(NodeId(2))) is not None and broker.epoch > before
            )
        )
        again = cluster.inside(2).local.image.brokers[NodeId(2)].epoch
        await cluster.until(is_fenced(2, fenced=False))
        await cluster.kill(2)
        caplog.clear()
        await cluster.start(2)
        [line] = [one for one in caplog.messages if one.startswith("registered broker=2")]
        assert line.endswith(f"previous_epoch={again}")

    caplog.set_level(logging.INFO)
    in_a_cluster(tmp_path, scenario)


def test_a_voter_that_has_lost_what_it_acknowledged_does_not_vote_again(tmp_path: Path) -> None:
    async def scenario(cluster: NodeCluster) -> None:
        await cluster.create_topic("orders", through=1)
        await cluster.stop(2)
        for log in (tmp_path / "node-2" / "__cluster_metadata-0").glob("*.log"):
            log.unlink()
        for _ in range(2):  # not the second time, either
            with pytest.raises(LostMetadata, match="has acknowledged what it no longer has"):
                await cluster.start(2)
        await cluster.create_topic("payments", through=1)

    in_a_cluster(tmp_path, scenario)
