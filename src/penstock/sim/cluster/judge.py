"""Whether a cluster is whole again once its faults have ended, and has kept all that it promised.

`Judge` asks in order: what is served, what the metadata say, what clients read, what lies on disks.
The rules themselves are in `judgement` and `replica_disks`.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.metadata.image.image import Image
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.sim.cluster.applications import ApplicationStage
from penstock.sim.cluster.history import ClusterHistory
from penstock.sim.cluster.inspection import Inspection
from penstock.sim.cluster.judgement import (
    judge_commits,
    judge_images,
    judge_records,
    judge_transactions,
    missing_brokers,
    missing_replicas,
    missing_service,
    open_transactions,
)
from penstock.sim.cluster.layout import address, machines
from penstock.sim.cluster.probing import probe
from penstock.sim.cluster.replica_disks import judge_copies, judge_replicas
from penstock.sim.cluster.replica_watch import ReplicaWatch
from penstock.sim.cluster.scenario import PAYMENTS, ClusterScenario
from penstock.sim.errors import Violation
from penstock.sim.host_faults import require_healthy
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.sim_cluster import SimCluster

HEALTHY_MS = 60_000
SERVED_MS = 60_000


class Judge:
    def __init__(
        self,
        cluster: SimCluster,
        scenario: ClusterScenario,
        history: ClusterHistory,
        *,
        inspection: Inspection,
        replica_watch: ReplicaWatch,
        applications: ApplicationStage | None,
        look: Callable[[], None],
    ) -> None:
        """`look` checks what must hold at any time."""
        self._cluster = cluster
        self._scenario = scenario
        self._history = history
        self._inspection = inspection
        self._replica_watch = replica_watch
        self._applications = applications
        self._look = look
        self._hosts: Mapping[NodeId, str] = machines(scenario.nodes)

    async def judge(self, when: str) -> None:
        self._cluster.trace.note("judge", when)
        self._checking("health, served: brokers, leaders, replicas, and a topic through each node")
        await require_healthy(self.missing, within_ms=HEALTHY_MS)
        await self._require_service(when)
        images = await self._equal_images()
        self._checking("lost operation, done twice: the metadata of every node")
        judge_images(self._history, images)
        self._look()
        self._cluster.check()
        addresses = [address(host) for host in self._hosts.values()]
        async with self._cluster.client("judge", addresses) as cluster:
            self._checking("lost records, duplicates, order: all records")
            await judge_records(self._history, cluster)
            if self._scenario.transactors and not self._has_lost(TRANSACTION_TOPIC, PAYMENTS):
                self._checking("transactions: open ones, and the records of all")
                lacks = partial(open_transactions, cluster, self._scenario.nodes)
                await require_healthy(lacks, within_ms=HEALTHY_MS)
                await judge_transactions(self._history, cluster, self._scenario.nodes)
            if self._applications is not None:
                self._checking("atomicity, fencing, transaction order and offsets: applications")
                await self._applications.judge(cluster, self._leader_of)
            if not self._has_lost(OFFSETS_TOPIC):
                self._checking("commits: the offsets of groups")
                await judge_commits(self._history, cluster)
        self._checking("replicas: byte for byte, on all disks")
        # Not those from before: what a client gave up may arrive as long as packets are sent again.
        self._judge_replicas(await self._equal_images())

    async def _equal_images(self) -> dict[str, Image]:
        """Of all nodes, as they are now, once nothing lacks by them; valid until the next await."""
        await require_healthy(self.missing, within_ms=HEALTHY_MS)
        return {
            host: image
            for host in self._hosts.values()
            if (image := self._inspection.image_of(host))
        }

    def _leader_of(self, place: TopicPartition) -> str | None:
        images = (self._inspection.image_of(host) for host in self._hosts.values())
        newest = max(filter(None, images), key=lambda image: image.offset, default=Image())
        topic = newest.topics_by_name.get(place.topic)
        leader = None if topic is None else topic.partitions[place.partition].leader
        return None if leader is None else self._hosts[leader]

    def _checking(self, what: str) -> None:
        """Which checks come next: one that fails is the last of the trace."""
        self._cluster.trace.remark("check", what)

    def _has_lost(self, *topics: str) -> bool:
        """Whether acked records of these topics may be gone."""
        return any(place.topic in topics for place in self._history.may_have_lost)

    def _judge_replicas(self, images: Mapping[str, Image]) -> None:
        for topic in next(iter(images.values())).topics_by_name.values():
            for index, partition in enumerate(topic.partitions):
                place = TopicPartition(topic.name, index)
                hosts = [self._hosts[node_id] for node_id in partition.replicas]
                hosts = [host for host in hosts if self._history.damaged.get(place) != host]
                watermarks = [self._replica_watch.high_watermark(host, place) for host in hosts]
                replicas = {host: self._cluster.nodes[host] for host in hosts}
                judge_replicas(place, replicas, until=min(watermarks))
                if place in self._history.damaged and place not in self._history.may_have_lost:
                    judge_copies(place, replicas, self._history.records.get(place, {}))

    # What lacks

    async def missing_brokers(self) -> str | None:
        """Clients still change topics, so images need not be equal."""
        for host in self._hosts.values():
            image = self._inspection.image_of(host)
            missing = "it is not up" if image is None else missing_brokers(image, self._hosts)
            if missing is not None:
                return f"{missing}, by {host}"
        return None

    async def missing(self) -> str | None:
        images: dict[str, Image] = {}
        logs: dict[str, frozenset[TopicPartition]] = {}
        for host in self._hosts.values():
            image = self._inspection.image_of(host)
            if image is None:
                return f"{host} is not up"
            images[host] = image
            logs[host] = frozenset(self._cluster.nodes[host].logs)
        if self._inspection.leader() is None:
            return "nobody leads the quorum"
        return missing_service(images, logs, self._hosts) or missing_replicas(images, self._history)

    async def _require_service(self, when: str) -> None:
        for host in self._hosts.values():
            name = f"probe-{host}-{self._cluster.loop.now_us}"
            world = self._cluster.host("judge").world(KillSwitch())
            try:
                async with asyncio.timeout(SERVED_MS / 1000):
                    await probe(
                        world,
                        host,
                        topic=name,
                        partitions=self._scenario.nodes,
                        replicas=self._scenario.replicas,
                    )
            except TimeoutError:
                raise Violation(
                    "served", f"{when}: no topic could be used through {host} in {SERVED_MS} ms"
                ) from None
