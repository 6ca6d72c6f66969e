"""Applications that work in transactions on a cluster; `sim/transacting` has them on one node too.

Instances of one application fence each other, sleep in transactions until these have timed out, and
speak both generations of the protocol, some in two phases. A witness reads what is committed.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.isolation import Isolation
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import TopicPartition
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.node.build import OpenNode
from penstock.sim.cluster.clients import CLIENT_RULES, Client, WatchedCluster
from penstock.sim.cluster.layout import address
from penstock.sim.history import History
from penstock.sim.sim_node import SimNode
from penstock.sim.trace import Trace
from penstock.sim.transacting.application import Instance, work
from penstock.sim.transacting.plan import PREFIX, Application, TransactionPlan
from penstock.sim.transacting.routes import ManyNodes
from penstock.sim.transacting.session import Session
from penstock.sim.transacting.stage import judge, set_up
from penstock.world.ports import World

WITNESS = "witness"
INTERNAL = (TRANSACTION_TOPIC, OFFSETS_TOPIC)


class ApplicationStage:
    """What the applications of a cluster share; see `TransactionLab`."""

    def __init__(self, plan: TransactionPlan, nodes: Mapping[str, SimNode], trace: Trace) -> None:
        self.plan = plan
        self.history = History()
        self.trace = trace
        self.ending = False
        self._nodes = nodes
        self._left: dict[str, dict[TopicPartition, int]] = {}  # ends of logs of nodes that are down

    @property
    def clients(self) -> list[str]:
        return [
            WITNESS,
            *(
                f"{application.transactional_id}-{'abc'[instance]}"
                for application in self.plan.applications
                for instance in range(application.instances)
            ),
        ]

    def application_of(self, client: str) -> Application:
        transactional_id = client.rpartition("-")[0]
        return next(
            one for one in self.plan.applications if one.transactional_id == transactional_id
        )

    def ends(self) -> dict[TopicPartition, int]:
        """The greatest that any replica has, also one whose node is down: nobody who writes now
        gets a lower offset, unless what is there is cut off.
        """
        found: dict[TopicPartition, int] = {}
        for host, node in self._nodes.items():
            logs = node.logs
            ends = {place: int(log.end_offset) for place, log in logs.items()}
            for place, end in (ends or self._left.get(host, {})).items():
                if place.topic.startswith(PREFIX):
                    found[place] = max(end, found.get(place, 0))
        return found

    def life_ended(self, host: str, node: OpenNode | None) -> None:
        if node is not None:
            self._left[host] = {place: int(log.end_offset) for place, log in node.logs.items()}

    def records_lost(self, places: set[TopicPartition]) -> None:
        """All that had acked records of these partitions have lost them."""
        topics = {*INTERNAL, *(topic.name for topic in self.plan.topics)}
        if any(place.topic in topics for place in places):
            self.history.transactions.nothing_promised = True

    async def set_up(self, cluster: Cluster, *, replicas: int) -> None:
        await set_up(self, cluster, self.plan, replicas=replicas)

    async def judge(
        self, cluster: Cluster, leader_of: Callable[[TopicPartition], str | None]
    ) -> None:
        logs: dict[TopicPartition, PartitionLog] = {}
        for place in self.plan.places:
            host = leader_of(place)
            log = None if host is None else self._nodes[host].log_of(place)
            if log is not None:
                logs[place] = log
        await judge(self, cluster, self.plan, logs)


class ApplicationClient(Client):
    """One instance."""

    def __init__(self, *arguments: Any, stage: ApplicationStage, **rest: Any) -> None:
        super().__init__(*arguments, **rest)
        self._stage = stage

    async def main(self, world: World) -> None:
        application = self._stage.application_of(self.name)
        bootstrap = [address(host) for host in self.hosts]
        async with WatchedCluster(
            world.network, world.clock, bootstrap, rules=CLIENT_RULES
        ) as cluster:
            session = Session(
                self._stage,
                self.name,
                cluster,
                application,
                ends=self._stage.ends,
                routes=ManyNodes(cluster),
            )
            await work(Instance(self._stage, self.name, session, self._stage.plan, self.chance))


class WitnessClient(Client):
    """Reads what is committed, all along: never a record of a transaction that may be none."""

    def __init__(self, *arguments: Any, stage: ApplicationStage, **rest: Any) -> None:
        super().__init__(*arguments, **rest)
        self._stage = stage

    async def main(self, world: World) -> None:
        rules = ConsumerRules(
            reset=Reset.EARLIEST,
            request_ms_max=CLIENT_RULES.request_ms_max,
            fetch=FetchRules(wait_ms_max=2_500, isolation=Isolation.READ_COMMITTED),
        )
        bootstrap = [address(host) for host in self.hosts]
        async with WatchedCluster(
            world.network, world.clock, bootstrap, rules=CLIENT_RULES
        ) as cluster:
            while not self.ending:
                try:
                    async with Consumer(cluster, rules=rules) as consumer:
                        await consumer.assign(list(self._stage.plan.places))
                        await self._watch(consumer)
                except ClientError as error:
                    self.note(f"cannot read: {error}")
                    await asyncio.sleep(1)

    async def _watch(self, consumer: Consumer) -> None:
        history = self._stage.history
        while not self.ending:
            for record in await consumer.poll(wait_ms=2_000):
                if not history.transactions.nothing_promised:
                    place = TopicPartition(record.topic, record.partition)
                    history.transactions.see(history.see(record).name, place, record.offset)
