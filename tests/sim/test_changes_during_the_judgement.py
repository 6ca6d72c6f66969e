"""A cluster is judged by its metadata as they are when a check is made.

A request that its client has given up arrives when the client's system next sends it again, which
may be many seconds after the faults: it is done then, in the middle of the judgement.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest

from penstock.client.admin.admin import Admin
from penstock.client.network.cluster import Cluster
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.image.topic import TopicImage
from penstock.model.identity import NodeId
from penstock.sim.cluster import judge
from penstock.sim.cluster.history import ClusterHistory, Presence
from penstock.sim.cluster.judgement import judge_records
from penstock.sim.cluster.layout import machine
from penstock.sim.cluster.run import ClusterSimulation
from penstock.sim.cluster.scenario import ClusterScenario, draw
from penstock.sim.fault_plan import FaultPlan
from penstock.sim.loop import SimLoop
from penstock.sim.verdict import verdict_of


def without_faults(*, replicas: int) -> ClusterScenario:
    return replace(
        draw(1, nodes=3, replicas=replicas, plain=True),
        plan=FaultPlan(faults=(), lasts_ms=5_000),
        strike_kinds=(),
        power_lost_at_end=False,
    )


def judged(
    monkeypatch: pytest.MonkeyPatch,
    scenario: ClusterScenario,
    change: Callable[[ClusterSimulation, Cluster], Awaitable[None]],
) -> str | None:
    """The verdict, if `change` happens after the images were compared, and records read."""
    loop = SimLoop()  # type: ignore[abstract]  # what it lacks, nobody may call
    simulation = ClusterSimulation(loop, scenario)

    async def judge_records_and_change(history: ClusterHistory, cluster: Cluster) -> None:
        await judge_records(history, cluster)
        await change(simulation, cluster)

    monkeypatch.setattr(judge, "judge_records", judge_records_and_change)
    return verdict_of(loop, simulation.cluster.trace, simulation.run(), log_lines=False)


def only_followed(image: Image) -> Iterator[tuple[TopicImage, NodeId]]:
    """Topics, each with a node that follows its first partition, and leads none of them."""
    for topic in image.topics_by_name.values():
        leaders = {partition.leader for partition in topic.partitions}
        for node_id in topic.partitions[0].replicas:
            if node_id not in leaders:
                yield topic, node_id


@pytest.mark.parametrize("seconds_ago", [0, 1], ids=["not known to all nodes", "known to all"])
def test_topics_may_be_deleted_by_a_request_that_arrives_late(
    seconds_ago: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[str] = []

    async def delete(simulation: ClusterSimulation, cluster: Cluster) -> None:
        topics = simulation.history.living("admin-")
        for topic in topics:
            topic.presence = Presence.LEAVING
        told = await Admin(cluster).delete_topics([topic.name for topic in topics])
        deleted.extend(name for name, refused in told.items() if refused is None)
        await asyncio.sleep(seconds_ago)

    assert judged(monkeypatch, without_faults(replicas=1), delete) is None
    assert deleted


def test_a_replica_that_is_given_up_without_a_request_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost: list[str] = []

    async def lose(simulation: ClusterSimulation, _: Cluster) -> None:
        image = simulation.image_of(machine(1))
        assert image is not None
        topic, follower = next(only_followed(image))
        parts = simulation.cluster.nodes[machine(follower)].parts
        assert parts is not None
        assert parts.broker is not None
        parts.broker.partitions.apply(Delta(topics_deleted=(topic,)), image)
        lost.append(f"replicas: {machine(follower)} has no replica of {topic.name}-0")

    assert judged(monkeypatch, without_faults(replicas=3), lose) == lost[0]
