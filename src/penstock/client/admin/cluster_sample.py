"""A cluster at one moment, as far as its brokers tell by the public protocol.

A `Sampler` asks all brokers at once. One that gives no answer costs its own figures and nothing
else: it is in the sample, with the reason. Only where no broker at all answers is there no sample.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field

from penstock.alerts.machine import State
from penstock.alerts.report import Report
from penstock.client.admin.admin import Admin, BrokerDescription
from penstock.client.admin.alert_evaluation import brokers_to_ask, switched_off
from penstock.client.admin.alert_reports import read_reports
from penstock.client.admin.alert_topic import NotEvaluated, alert_topic
from penstock.client.admin.configs import Resource, describe_configs
from penstock.client.admin.group_samples import GroupSample, sample_groups
from penstock.client.admin.quorum import describe_quorum
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import Listed, When, ask_leader
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import (
    ClientError,
    ConnectionLost,
    Refused,
    TimedOut,
    UnsupportedByBroker,
)
from penstock.client.network.routing import ClusterView
from penstock.model.configs import ResourceKind
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.model.settings.alerts import ALERTS_TOPIC

IN_SYNC_MIN = "min.insync.replicas"
ATTEMPTS = 3
SETTINGS_MS = 30_000  # so long what topics demand is taken for what they demanded last


@dataclass(slots=True, kw_only=True)
class NodeAnswer:
    """What one broker told. Parts that it refused are empty, and `refused` says so."""

    silent: str | None = None  # why it gave no answer
    refused: list[str] = field(default_factory=list)
    start_offset: dict[TopicPartition, Offset] = field(default_factory=dict)
    end_offset: dict[TopicPartition, Offset] = field(default_factory=dict)
    size_bytes: dict[TopicPartition, int] | None = None  # None where it did not tell
    offline_directories: list[str] = field(default_factory=list)
    groups: list[GroupSample] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSample:
    at_ms: int  # monotonic
    view: ClusterView
    controller: NodeId | None  # the active one; None where there is none, or nobody tells
    brokers: Sequence[BrokerDescription]  # with those that are fenced
    answers: Mapping[NodeId, NodeAnswer]  # of those that are not
    in_sync_min: Mapping[str, int]  # by topic, where it is told
    refused: Sequence[str] = ()  # what could not be asked of the cluster
    alerts: Sequence[Report] = ()  # that fire, where nodes tell them in a topic
    alerts_off: frozenset[NodeId] = frozenset()  # brokers that do not evaluate them any more


class Sampler:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._in_sync_min: dict[str, int] = {}
        self._settings_until_ms = 0
        self._alert_topic: str | None = ALERTS_TOPIC
        self._alert_topic_until_ms = 0
        self._alerts: tuple[Report, ...] = ()
        self._alerts_until: dict[TopicPartition, Offset] = {}  # so far they are read
        self._alerts_off: frozenset[NodeId] = frozenset()
        self._alerts_off_until_ms = 0

    async def take(self) -> ClusterSample:
        """ClientError when no broker answers. One that goes away over a question is no answer:
        another one is asked.
        """
        for _ in range(ATTEMPTS - 1):
            try:
                return await self._take()
            except (ConnectionLost, TimedOut):
                continue  # its channel is closed: the next question goes to another one
        return await self._take()

    async def _take(self) -> ClusterSample:
        refused: list[str] = []
        view = await self.cluster.refresh_all()
        brokers = await self._brokers(view)
        controller = await self._controller(refused)
        await self._learn_settings(view, refused)
        fenced = {one.node_id for one in brokers if one.fenced}
        led: dict[NodeId, list[TopicPartition]] = {n: [] for n in view.brokers if n not in fenced}
        for name, topic in view.topics.items():
            for one in topic.partitions:
                place = TopicPartition(name, one.index)
                leader = view.leader_of(place)
                if leader in led:
                    led[leader].append(place)
        at_ms = self.cluster.clock.monotonic_ms()
        async with asyncio.TaskGroup() as tasks:
            asked = {
                node: tasks.create_task(_answer(self.cluster, node, places))
                for node, places in led.items()
            }
        answers = {node: task.result() for node, task in asked.items()}
        await self._learn_alerts(view, answers, refused)
        await self._learn_evaluation(answers)
        return ClusterSample(
            at_ms=at_ms,
            view=view,
            controller=controller,
            brokers=brokers,
            answers=answers,
            in_sync_min={name: n for name, n in self._in_sync_min.items() if name in view.topics},
            refused=refused,
            alerts=self._alerts,
            alerts_off=self._alerts_off,
        )

    async def _brokers(self, view: ClusterView) -> tuple[BrokerDescription, ...]:
        try:
            return (await Admin(self.cluster).describe_cluster()).brokers
        except (Refused, UnsupportedByBroker):
            # Before 2.8 brokers do not know the question; metadata tell of those that are up.
            return tuple(
                BrokerDescription(
                    node_id=one.node_id,
                    host=one.address.host,
                    port=one.address.port,
                    rack=one.rack,
                    fenced=False,
                )
                for one in view.brokers.values()
            )

    async def _controller(self, refused: list[str]) -> NodeId | None:
        try:
            return (await describe_quorum(self.cluster)).leader_id
        except UnsupportedByBroker:
            return self.cluster.view.controller  # before 3.3: what brokers call the controller
        except Refused as error:
            refused.append(f"active controller: {error}")
            return None

    async def _learn_settings(self, view: ClusterView, refused: list[str]) -> None:
        now_ms = self.cluster.clock.monotonic_ms()
        if now_ms >= self._settings_until_ms:
            self._in_sync_min.clear()
            self._settings_until_ms = now_ms + SETTINGS_MS
        unknown = [name for name in view.topics if name not in self._in_sync_min]
        resources = [Resource(ResourceKind.TOPIC, name) for name in unknown]
        told = await describe_configs(self.cluster, resources, names=[IN_SYNC_MIN])
        for resource, entries in told.items():
            if isinstance(entries, Refused):
                refused.append(f"{IN_SYNC_MIN} of {entries}")
                continue
            for entry in entries:
                if entry.name == IN_SYNC_MIN and entry.value is not None:
                    self._in_sync_min[resource.name] = int(entry.value)

    async def _learn_alerts(
        self, view: ClusterView, answers: Mapping[NodeId, NodeAnswer], refused: list[str]
    ) -> None:
        """Their topic is read when it has grown. While its leader does not answer, they are taken
        for what they were.
        """
        await self._learn_alert_topic(answers, refused)
        topic = self._alert_topic
        if topic is None or topic not in view.topics:
            self._alerts, self._alerts_until = (), {}
            return
        ends = {
            place: offset
            for answer in answers.values()
            for place, offset in answer.end_offset.items()
            if place.topic == topic
        }
        if len(ends) < len(view.topics[topic].partitions) or ends == self._alerts_until:
            return
        try:
            reports = await read_reports(self.cluster, topic)
        except ClientError as error:
            refused.append(f"alerts: {error}")
            return
        self._alerts = tuple(one for one in reports.values() if one.state is State.FIRING)
        self._alerts_until = ends

    async def _learn_evaluation(self, answers: Mapping[NodeId, NodeAnswer]) -> None:
        """Whether brokers evaluate alerts changes by a restart only."""
        now_ms = self.cluster.clock.monotonic_ms()
        if not self._alerts or now_ms < self._alerts_off_until_ms:
            return
        brokers = [node for node, one in answers.items() if one.silent is None]
        asked = brokers_to_ask(self._alerts, brokers)
        self._alerts_off = await switched_off(self.cluster, asked)
        self._alerts_off_until_ms = now_ms + SETTINGS_MS

    async def _learn_alert_topic(
        self, answers: Mapping[NodeId, NodeAnswer], refused: list[str]
    ) -> None:
        """By the settings of a broker that answers; else it is taken for what it was."""
        now_ms = self.cluster.clock.monotonic_ms()
        node = next((node for node, one in answers.items() if one.silent is None), None)
        if node is None or now_ms < self._alert_topic_until_ms:
            return
        try:
            self._alert_topic = await alert_topic(self.cluster, node)
        except NotEvaluated:
            self._alert_topic = None
        except ClientError as error:
            refused.append(f"topic of alerts: {error}")
            return
        self._alert_topic_until_ms = now_ms + SETTINGS_MS


async def _answer(cluster: Cluster, node: NodeId, led: Sequence[TopicPartition]) -> NodeAnswer:
    """Ends and sizes first, one right after the other: the rates are made of them."""
    found = NodeAnswer()
    try:
        if led:
            found.end_offset = await _offsets(cluster, node, led, When.LATEST)
        await _learn_sizes(cluster, node, found)
        if led:
            found.start_offset = await _offsets(cluster, node, led, When.EARLIEST)
        found.groups = await sample_groups(cluster, node)
    except (Refused, UnsupportedByBroker) as error:
        found.refused.append(f"broker {node}: {error}")
    except ClientError as error:
        found.silent = str(error)
    return found


async def _offsets(
    cluster: Cluster, node: NodeId, places: Sequence[TopicPartition], when: When
) -> dict[TopicPartition, Offset]:
    wanted = dict.fromkeys(places, int(when))
    listed: Listed = await ask_leader(cluster, node, wanted, Isolation.READ_UNCOMMITTED)
    return {
        place: one.offset
        for place, one in listed.items()
        if not isinstance(one, Refused) and one.offset is not None
    }


async def _learn_sizes(cluster: Cluster, node: NodeId, found: NodeAnswer) -> None:
    directories = (await Admin(cluster).log_directories([node]))[node]
    if isinstance(directories, Refused):
        found.refused.append(f"broker {node}: log directories: {directories.code.name}")
        return
    found.size_bytes = {}
    for one in directories:
        if one.error is not None:
            found.offline_directories.append(one.path)
        for replica in one.replicas:
            held = found.size_bytes.get(replica.partition, 0)
            found.size_bytes[replica.partition] = max(held, replica.size_bytes)
