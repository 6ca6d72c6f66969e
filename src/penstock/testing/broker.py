"""A broker in this process, as a test sees it. Start reading at `running_broker`.

One Broker may have several lives, one after the other, on one directory and at one address: what
`stop`, `kill` and `restart` are for. Each is a `NodeThread`.
"""

import itertools
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, TypeVar

from penstock.client.admin.admin import BROKERS_DECIDE, Admin, NewTopic, first_refusal
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.setting import InvalidSetting
from penstock.node.config import NodeConfig
from penstock.testing import topic_records
from penstock.testing.node_thread import WAIT_SECONDS_MAX, BrokerFailed, NodeThread
from penstock.testing.topic_records import GivenRecord, Text

Result = TypeVar("Result")
Plain = str | int | float | PurePath
SettingValue = Plain | Sequence[Plain] | frozenset[Plain] | set[Plain]

NODE_ID = NodeId(1)
HOST = "127.0.0.1"
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
        self, data: Path, settings: Mapping[str, SettingValue], *, port: int | None = None
    ) -> None:
        self.data = data
        self._held_port: socket.socket | None = None
        texts = {**SETTINGS, **{name: setting_text(name, settings[name]) for name in settings}}
        if port is not None and "listeners" in texts:
            raise InvalidSetting(
                name="listeners", value=texts["listeners"], expected="Give it or a port, not both"
            )
        if "listeners" not in texts:
            port = self._hold_port() if port is None else port
            texts["listeners"] = f"PLAINTEXT://{HOST}:{port}"
        self._config = NodeConfig(
            node_id=NODE_ID, data_directory=str(data), settings=parse_broker(texts)
        )
        self._names = itertools.count(1)
        self._bootstrap = ""
        self._life: NodeThread | None = None

    @property
    def bootstrap(self) -> str:
        """Where clients connect: HOST:PORT. It stays the same when the broker is restarted."""
        return self._bootstrap

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
        self._call(lambda life: _create(life, new))
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
        self._call(lambda life: _produce(life, wanted))

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
            async with _cluster(life) as cluster:
                return await topic_records.read_all(
                    cluster,
                    topic,
                    at_least=at_least,
                    read_committed=read_committed,
                    within_seconds=within_seconds,
                )

        return self._call(read, wait_seconds_max=within_seconds + WAIT_SECONDS_MAX)

    # Its lives

    def start(self) -> None:
        """Returns when clients can produce; BrokerFailed with what kept it from that. Harmless when
        it runs.
        """
        if self._life is not None and self._life.is_alive:
            return
        self.stop()  # tells why it ended by itself, if it did
        life = NodeThread(self._config)
        life.start()
        self._life = life
        self._bootstrap = ",".join(map(str, life.addresses))

    def stop(self) -> None:
        """Stops it cleanly; harmless when it is stopped. BrokerFailed when it had ended by itself
        before.
        """
        self._end(cleanly=True)

    def kill(self) -> None:
        """Ends it as `kill -9` would: requests get no answer, and nothing is written any more."""
        self._end(cleanly=False)

    def restart(self) -> None:
        """A clean stop and a start, with the same records at the same address."""
        self.stop()
        self.start()

    def _end(self, *, cleanly: bool) -> None:
        life, self._life = self._life, None
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

    def _hold_port(self) -> int:
        """A free port that nobody else is given between two lives.

        The socket is bound and does not listen. On Linux the node, which sets SO_REUSEADDR, can
        listen there all the same; elsewhere it could not, and that the port stays free is likely.
        """
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, 0))
        port: int = held.getsockname()[1]
        if sys.platform == "linux":
            self._held_port = held
        else:
            held.close()
        return port

    def _let_port_go(self) -> None:
        if self._held_port is not None:
            self._held_port.close()


@contextmanager
def running_broker(
    *,
    settings: Mapping[str, SettingValue] | None = None,
    data: str | PathLike[str] | None = None,
    port: int | None = None,
) -> Iterator[Broker]:
    """A broker for the length of a `with` block; `settings` by Kafka's names, of any plain type.

    It listens on a free port of 127.0.0.1, or on `port`. Its records are gone afterwards, unless
    they are stored in a `data` directory of the caller's.
    """
    with ExitStack() as ends:
        if data is None:
            data = tempfile.mkdtemp(prefix="penstock-")
            ends.callback(shutil.rmtree, data, ignore_errors=True)
        broker = Broker(Path(data), settings or {}, port=port)
        ends.callback(broker._let_port_go)
        broker.start()
        ends.callback(broker.stop)
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


def _cluster(life: NodeThread, *, create_topics: bool = False) -> Cluster:
    rules = ClusterRules(create_topics=create_topics)
    return Cluster(life.world.network, life.world.clock, life.addresses, rules=rules)


async def _create(life: NodeThread, topic: NewTopic) -> None:
    async with _cluster(life) as cluster:
        first_refusal((await Admin(cluster).create_topics([topic])).values())


async def _produce(life: NodeThread, wanted: topic_records.Given) -> None:
    async with _cluster(life, create_topics=True) as cluster:
        await topic_records.produce(cluster, wanted)
