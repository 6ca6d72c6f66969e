"""What was read of one log is not taken for another of its name; elections lose no decision."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.client.admin.admin import Admin
from penstock.client.admin.configs import Resource, describe_configs
from penstock.client.network.errors import Refused
from penstock.client.produce.producer import Producer
from penstock.model.configs import ResourceKind
from penstock.model.offset import LeaderEpoch
from penstock.spark.sink.decision import Claim, SinkRecord, encode
from penstock.spark.sink.decision_topic import DecisionTopic, Known
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware, ReplicatedCluster
from rig.serve import ServedNode
from rig.sink_output import cluster_at
from rig.sink_shell import DECISIONS, claimed, sink_at

TOPIC = "rows"
OTHER = SinkRecord(claim=Claim(query_id="query", run_id="another"))
SETTINGS = ("unclean.leader.election.enable", "min.insync.replicas")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    two_phase = {"transaction.two.phase.commit.enable": "true"}
    served = ServedNode(data=tmp_path / "node", settings=two_phase)
    served.start()
    yield served
    assert served.stop() == 0


def test_claim_in_a_topic_that_was_made_anew_is_seen_by_who_planned_before(
    node: ServedNode,
) -> None:
    async def work() -> list[SinkRecord | None]:
        async with sink_at(node.bootstrap, TOPIC) as shell:
            await claimed(shell, "run")
            planned = await shell.decisions.last(shell.sink)
            await Admin(shell.cluster).delete_topics([DECISIONS])
        async with sink_at(node.bootstrap, TOPIC) as other:
            place = await other.decisions.place_of(shell.sink)
            async with Producer(other.cluster) as producer:
                key = shell.sink.encode()
                await producer.send(place.topic, encode(OTHER), key=key, partition=place.partition)
                for _ in range(50):  # beyond what was read of the former one
                    await producer.send(place.topic, b"?", key=b"?", partition=place.partition)
            handed_on = await other.decisions.last(shell.sink, planned)
            remembered = await other.decisions.last(shell.sink)
            return [handed_on.record, remembered.record]

    assert asyncio.run(work()) == [OTHER, OTHER]


def test_partition_with_another_leader_is_read_from_its_beginning(node: ServedNode) -> None:
    async def work() -> list[Known]:
        async with sink_at(node.bootstrap, TOPIC) as shell:
            await claimed(shell, "run")
            known = await shell.decisions.last(shell.sink)
            former = LeaderEpoch(known.log.leader_epoch - 1)
            before = replace(known, log=known.log._replace(leader_epoch=former), record=None)
            return [known, await shell.decisions.last(shell.sink, before)]

    known, found = asyncio.run(work())
    assert known.record is not None
    assert found == known


def test_decisions_outlast_the_loss_of_a_replica(tmp_path: Path) -> None:
    """As the transaction log does: where there are three, two of them have each decision."""
    of_brokers = dict(zip(SETTINGS, ("true", "1"), strict=True))
    settings = {**BRISK_SESSIONS, **of_brokers, "default.replication.factor": "3"}
    with ReplicatedCluster(PenstockSoftware(), tmp_path, settings=settings) as made:
        made.start()

        async def work() -> dict[int | None, list[str | None]]:
            found = {}
            async with cluster_at(made.bootstrap) as cluster:
                for replicas in (None, 3, 2, 1):
                    name = f"decisions-{replicas}"
                    await DecisionTopic(cluster=cluster, name=name, replicas=replicas).make()
                    resource = Resource(ResourceKind.TOPIC, name)
                    entries = (await describe_configs(cluster, [resource]))[resource]
                    assert not isinstance(entries, Refused)
                    values = {entry.name: entry.value for entry in entries}
                    found[replicas] = [values[setting] for setting in SETTINGS]
            return found

        safe, default = ["false", "2"], ["false", "1"]
        assert asyncio.run(work()) == {None: safe, 3: safe, 2: default, 1: default}
