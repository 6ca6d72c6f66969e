"""A broker in this process, as a test sees it: one node, or a cluster of several. Start reading at
`running_broker`.

One Broker may have several lives, one after the other, on one directory and at one address: what
`stop`, `kill` and `restart` are for. Each is a `NodeThread`; nodes end and start one by one in it.
"""

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, TypeVar

from penstock.client.admin.admin import BROKERS_DECIDE, Admin, NewTopic, first_refusal
from penstock.client.admin.quorum import describe_quorum
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.setting import InvalidSetting
from penstock.node.config import NodeConfig
from penstock.testing import topic_records
from penstock.testing.cluster_nodes import HOST, HeldPorts, cluster_configs
from penstock.testing.node_thread import WAIT_SECONDS_MAX, BrokerFailed, NodeThread
from penstock.testing.topic_records import GivenRecord, Text

Result = TypeVar("Result")
Plain = str | int | float | PurePath
SettingValue = Plain | Sequence[Plain] | frozenset[Plain] | set[Plain]

NODE_ID = NodeId(1)
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.two.phase.commit.enable": "true",
    # Records of tests have dates of long ago. Who tests retention sets how often it looks for them.
    "log.initial.task.delay.ms": "86400000",
    "log.retention.check.interval.ms": "86400000",
}


class Broker:
    """A broker of a test. Made by `running_broker`."""

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, SettingValue],
        *,
        port: int | None = None,
        nodes: int = 1,
    ) -> None:
        self.data = data
        self._held_ports = HeldPorts()
        texts = {**SETTINGS, **{name: setting_text(name, settings[name]) for name in settings}}
        if port is not None and "listeners" in texts:
            raise InvalidSetting(
                name="listeners", value=texts["listeners"], expected="Give it or a port, not both"
            )
        if nodes == 1:
            if "listeners" not in texts:
                [port] = self._held_ports.hold(1) if port is None else [port]
                texts["listeners"] = f"PLAINTEXT://{HOST}:{port}"
            self._configs = [
                NodeConfig(node_id=NODE_ID, data_directory=str(data), settings=parse_broker(texts))
            ]
        else:
            self._configs = cluster_configs(
                nodes, data=data, settings=texts, port=port, held=self._held_ports
            )
        self._names = itertools.count(1)
        self._addresses: dict[int, str] = {}
        self._life: NodeThread | None = None

    @property
    def bootstrap(self) -> str:
        """Where clients connect: HOST:PORT, of each node one. It stays the same when the broker is
        restarted.
        """
        return ",".join(self._addresses.values())

    @property
    def nodes(self) -> Mapping[int, str]:
        """The address of each node, by its id; the first id is 1."""
        return MappingProxyType(self._addresses)

    @property
    def running(self) -> frozenset[int]:
        """The ids of the nodes that run."""
        return frozenset() if self._life is None else self._life.running

    # Who does what

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """The id of the node that leads a partition; None while none does."""

        async def ask(life: NodeThread) -> int | None:
            async with self._cluster(life) as cluster:
                view = await cluster.need([topic])
                return view.leader_of(TopicPartition(topic, partition))

        return self._call(ask)

    def active_controller(self) -> int:
        """The id of the node that decides about metadata."""

        async def ask(life: NodeThread) -> int:
            async with self._cluster(life) as cluster:
                return (await describe_quorum(cluster)).leader_id

        return self._call(ask)

    # What is in it

    def topic(
        self, name: str | None = None, partitions: int | None = None, **settings: SettingValue
    ) -> str:
        """Makes a topic and returns its name; settings by Kafka's names, with underscores."""
        by_name = {key.replace("_", "."): value for key, value in settings.items()}
        new = NewTopic(
            name=name or f"topic-{next(self._names)}",
            partitions=BROKERS_DECIDE if partitions is None else partitions,
            replicas=BROKERS_DECIDE,
            settings={key: setting_text(key, value) for key, value in by_name.items()},
        )
        self._call(lambda life: self._create(life, new))
        return new.name

    def produce(
        self,
        topic: str,
        records: Iterable[GivenRecord],
        *,
        partition: int | None = None,
        headers: Mapping[str, Text | None] | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Produces records and waits for their acks. Each is a value, or a tuple of key and value;
        text is UTF-8. The topic is created if need be, by the broker's rule.
        """
        wanted = topic_records.given(
            topic, records, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )
        self._call(lambda life: self._produce(life, wanted))

    def records(
        self,
        topic: str,
        *,
        at_least: int = 0,
        read_committed: bool = False,
        within_seconds: float = WAIT_SECONDS_MAX,
    ) -> list[ConsumedRecord]:
        """All records of a topic, by partition and offset.

        With `at_least` it waits until there are so many, TimedOut when there are not within the
        time. With `read_committed` without those of transactions that are open or aborted.
        """

        async def read(life: NodeThread) -> list[ConsumedRecord]:
            async with self._cluster(life) as cluster:
                return await topic_records.read_all(
                    cluster,
                    topic,
                    at_least=at_least,
                    read_committed=read_committed,
                    within_seconds=within_seconds,
                )

        return self._call(read, wait_seconds_max=within_seconds + WAIT_SECONDS_MAX)

    # Its lives

    def start(self, node: int | None = None) -> None:
        """Starts all nodes that do not run, or one of them. Returns when clients can produce;
        BrokerFailed with what kept it from that. Harmless when it runs.
        """
        wanted = self._wanted(node)
        if self._life is not None and self._life.is_alive:
            for node_id in wanted:
                if node_id not in self._life.running:
                    self._life.start_node(node_id)
            self._call(self._know_each_other)
            return
        self.stop()  # tells why it ended by itself, if it did
        if len(wanted) < len(self._configs):
            raise BrokerFailed(f"no node runs, and node {node} alone is no majority: call start()")
        life = NodeThread(self._configs)
        life.start()
        self._life = life
        self._addresses = {
            node_id: ",".join(map(str, life.addresses[node_id])) for node_id in sorted(wanted)
        }
        if len(wanted) > 1:
            self._call(self._know_each_other)

    def stop(self, node: int | None = None) -> None:
        """Stops all nodes cleanly, or one of them; harmless when it is stopped. BrokerFailed when
        one had ended by itself before.
        """
        self._end(node, cleanly=True)

    def kill(self, node: int | None = None) -> None:
        """Ends all nodes, or one of them, as `kill -9` would: requests get no answer, and nothing
        is written any more.
        """
        self._end(node, cleanly=False)

    def restart(self, node: int | None = None) -> None:
        """A clean stop and a start of all nodes, or of one of them, with the same records at the
        same address.
        """
        self.stop(node)
        self.start(node)

    def _wanted(self, node: int | None) -> list[NodeId]:
        ids = [config.node_id for config in self._configs]
        if node is None:
            return ids
        if node not in ids:
            raise BrokerFailed(f"there is no node {node}: there are {', '.join(map(str, ids))}")
        return [NodeId(node)]

    def _end(self, node: int | None, *, cleanly: bool) -> None:
        wanted = self._wanted(node)
        life = self._life
        if life is not None and life.is_alive and life.running - set(wanted):
            for node_id in wanted:
                life.end_node(node_id, cleanly=cleanly)
            return
        self._life = None
        if life is not None:
            life.end(cleanly=cleanly)

    def _call(
        self,
        work: Callable[[NodeThread], Coroutine[Any, Any, Result]],
        *,
        wait_seconds_max: float = WAIT_SECONDS_MAX,
    ) -> Result:
        if self._life is None:
            raise BrokerFailed("the broker does not run: call start()")
        return self._life.call(work(self._life), wait_seconds_max=wait_seconds_max)

    async def _know_each_other(self, life: NodeThread) -> None:
        """Returns when each node that runs leads clients to all others."""
        for node_id in life.running:
            addresses = life.addresses[node_id]
            async with Cluster(life.network, life.clock, addresses) as cluster:
                while True:
                    view = await cluster.refresh()
                    if life.running <= view.brokers.keys():
                        break
                    await asyncio.sleep(0.01)

    def _cluster(self, life: NodeThread, *, create_topics: bool = False) -> Cluster:
        addresses = [one for node_id in life.running for one in life.addresses[node_id]]
        rules = ClusterRules(create_topics=create_topics)
        return Cluster(life.network, life.clock, addresses, rules=rules)

    async def _create(self, life: NodeThread, topic: NewTopic) -> None:
        async with self._cluster(life) as cluster:
            first_refusal((await Admin(cluster).create_topics([topic])).values())

    async def _produce(self, life: NodeThread, wanted: topic_records.Given) -> None:
        async with self._cluster(life, create_topics=True) as cluster:
            await topic_records.produce(cluster, wanted)

    def _let_ports_go(self) -> None:
        self._held_ports.close()


@contextmanager
def running_broker(
    *,
    settings: Mapping[str, SettingValue] | None = None,
    data: str | PathLike[str] | None = None,
    port: int | None = None,
    nodes: int = 1,
) -> Iterator[Broker]:
    """A broker for the length of a `with` block; `settings` by Kafka's names, of any plain type.

    It listens on a free port of 127.0.0.1, or on `port`. Its records are gone afterwards, unless
    they are stored in a `data` directory of the caller's. With several `nodes` it is a cluster,
    all in this process; their ports are free ones, or those from `port` on.
    """
    with ExitStack() as ends:
        is_kept = data is not None
        if data is None:
            data = tempfile.mkdtemp(prefix="penstock-")
            ends.callback(shutil.rmtree, data, ignore_errors=True)
        broker = Broker(Path(data), settings or {}, port=port, nodes=nodes)
        ends.callback(broker._let_ports_go)
        broker.start()
        # The last nodes of a cluster would wait in vain for a controller to tell of their end.
        ends.callback(broker.stop if is_kept or nodes == 1 else broker.kill)
        yield broker


def setting_text(name: str, value: object) -> str:
    """A setting as Kafka writes it; InvalidSetting for what is no plain value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float | PurePath):
        return str(value)
    if isinstance(value, list | tuple | set | frozenset):
        texts = [setting_text(name, item) for item in value]
        return ",".join(sorted(texts) if isinstance(value, set | frozenset) else texts)
    raise InvalidSetting(
        name=name, value=repr(value), expected="A text, a number, a bool, or a list of these"
    )
