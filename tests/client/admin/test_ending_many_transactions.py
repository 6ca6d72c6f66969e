"""Prepared transactions of many ids are ended together, also while their coordinators move."""

import asyncio
import signal
from collections.abc import Collection
from pathlib import Path

from penstock.client.admin.admin import Admin, NewTopic
from penstock.client.admin.coordinator_map import KEYS_MAX, CoordinatorMap
from penstock.client.admin.prepared_endings import end_all
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.channel import Channel
from penstock.client.network.cluster import Cluster
from penstock.client.produce.prepared_transaction import PreparedTransaction
from penstock.client.produce.transaction_answers import Verdict
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.testing import Broker
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork
from rig.client_cluster import run_with_cluster
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware, ReplicatedCluster
from rig.failover.questions import create_replicated
from rig.sink_output import committed_values

TOPIC = "orders"
IDS = [f"shop-{number}" for number in range(9)]
RULES = TransactionRules(timeout_ms=600_000)


async def prepared(cluster: Cluster, transactional_id: str) -> PreparedTransaction:
    async with TransactionalProducer(cluster, transactional_id, rules=RULES) as producer:
        await producer.begin()
        await producer.send(TOPIC, transactional_id.encode())
        found = await producer.prepare()
    assert found is not None
    return found


def test_each_transaction_has_its_own_verdict(penstock: Broker) -> None:
    async def work(cluster: Cluster) -> list[Verdict]:
        await Admin(cluster).create_topics([NewTopic(name=TOPIC, partitions=1)])
        good = [await prepared(cluster, name) for name in IDS[:4]]
        taken_over = [await prepared(cluster, name) for name in IDS[4:6]]
        for one in taken_over:
            await end_all(CoordinatorMap(cluster), [one], commit=False)
            await prepared(cluster, one.transactional_id)
        coordinators = CoordinatorMap(cluster, {IDS[0]: NodeId(99)})  # which is no broker
        verdicts = []
        for _ in range(2):  # twice is as good as once
            answers = await end_all(coordinators, [*good, *taken_over], commit=True)
            verdicts += [answers[one].verdict for one in (*good, *taken_over)]
        assert set(coordinators.known) == set(IDS[:6])
        return verdicts

    done, fenced = [Verdict.DONE] * 4, [Verdict.FENCED] * 2
    assert run_with_cluster(penstock.bootstrap, work) == (done + fenced) * 2


def test_transactions_are_committed_after_their_coordinators_have_moved(tmp_path: Path) -> None:
    settings = {**BRISK_SESSIONS, "transaction.state.log.num.partitions": "6"}
    with ReplicatedCluster(PenstockSoftware(), tmp_path, settings=settings) as made:
        made.start()
        create_replicated(made, TOPIC, partitions=1)

        async def work() -> set[Verdict]:
            addresses = parse_addresses(made.bootstrap)
            async with Cluster(TcpNetwork(), RealClock(), addresses) as cluster:
                left = [await prepared(cluster, name) for name in IDS]
                found = await CoordinatorMap(cluster).find(IDS)
                nodes = {name: node for name, node in found.items() if type(node) is not ErrorCode}
                assert len(set(nodes.values())) > 1
                # Those remembered are of before: all but the ones of this node have moved.
                gone = nodes[IDS[0]]
                known = dict.fromkeys(IDS, NodeId(gone))
                made.nodes[gone].end(signal.SIGKILL)
                answers = await end_all(CoordinatorMap(cluster, known), left, commit=True)
                assert gone not in known.values()
                return {answers[one].verdict for one in left}

        assert asyncio.run(work()) == {Verdict.DONE}
        assert committed_values(made.bootstrap, TOPIC) == sorted(name.encode() for name in IDS)


class NotingCluster(Cluster):
    """Notes which brokers are asked for what any broker can answer."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(TcpNetwork(), RealClock(), parse_addresses(bootstrap))
        self.asked: list[Channel] = []

    async def any_channel(self, *, avoid: Collection[NodeId] = ()) -> Channel:
        channel = await super().any_channel(avoid=avoid)
        self.asked.append(channel)
        return channel


def test_no_former_coordinator_is_asked_who_it_is_now(tmp_path: Path) -> None:
    """However many requests it takes: one that was cut off may take itself for the coordinator."""
    with ReplicatedCluster(PenstockSoftware(), tmp_path, settings=BRISK_SESSIONS) as made:
        made.start()

        async def work() -> tuple[list[Channel], Channel]:
            async with NotingCluster(made.bootstrap) as cluster:
                *former, other = sorted((await cluster.refresh()).brokers)
                for node in former:
                    await cluster.channel(node)  # open ones are preferred to others
                ids = [f"shop-{number}" for number in range(2 * KEYS_MAX + 1)]
                known = {name: former[at % len(former)] for at, name in enumerate(ids)}
                coordinators = CoordinatorMap(cluster, known)
                for name in ids:
                    coordinators.forget(name)
                cluster.asked.clear()
                await coordinators.find(ids)
                return cluster.asked[:3], await cluster.channel(other)

        asked, other = asyncio.run(work())
        assert asked == [other] * 3
