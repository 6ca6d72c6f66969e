"""Writers that write one record at a time: how long each took, and whether it failed.

`DirectWriter` is a client that loses no time: it has connections to all nodes, and goes to the
leader that a refusal names (KIP-951). The others are client libraries with their defaults.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import confluent_kafka
from kafka import KafkaProducer

from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Producer, ProducerRules
from penstock.model.error import ErrorCode
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.world.real import real_world
from rig.clients.confluent import QUIET
from rig.dialogue import Dialogue

PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.002  # between records, and before a node is asked again
TIMEOUT_MS = 10_000
VERSION = 12  # of Produce: topics go by their names, and refusals name the leader
NOBODY = -1
RETRIABLE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class Written(NamedTuple):
    """One record; seconds of the monotonic clock."""

    begun: float
    ended: float
    node: int  # that acked it, where the client tells
    error: str | None


class Writer:
    """Writes on a thread of its own while `running`. A subclass says how one record is written."""

    name = ""

    def __init__(self) -> None:
        self.written: list[Written] = []
        self._changed = threading.Condition()
        self._over = False

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, name=self.name)
        thread.start()
        try:
            yield
        finally:
            self.end()
            thread.join(PATIENCE_SECONDS + 10)
            assert not thread.is_alive(), f"{self.name} does not end"
            self.close()

    def first(self, is_it: Callable[[Written], bool]) -> Written:
        """The first record of this kind; waits for it."""
        found: list[Written] = []

        def is_there() -> bool:
            found[:] = [one for one in self.written if one.error is None and is_it(one)][:1]
            return bool(found)

        with self._changed:
            assert self._changed.wait_for(is_there, PATIENCE_SECONDS), f"{self.name}: no record"
        return found[0]

    def longest_seconds(self, *, since: float) -> float:
        """Of those that were not done by then."""
        return max((one.ended - one.begun for one in self.written if one.ended > since), default=0)

    @property
    def failures(self) -> list[str]:
        return [f"{self.name}: {one.error}" for one in self.written if one.error is not None]

    def write(self) -> int:
        """Writes one; which node acked it. Raises what the client says if it fails."""
        raise NotImplementedError

    def end(self) -> None:
        """No record is begun after this."""
        self._over = True

    def close(self) -> None:
        """Once no record is written any more."""

    def _run(self) -> None:
        while not self._over:
            begun, node, error = time.monotonic(), NOBODY, None
            try:
                node = self.write()
            except Exception as failure:
                # Whatever a client raises is what its user sees.
                error = f"{type(failure).__name__}: {failure}"
            self._note(Written(begun, time.monotonic(), node, error))
            time.sleep(PAUSE_SECONDS)

    def _note(self, written: Written) -> None:
        with self._changed:
            self.written.append(written)
            self._changed.notify_all()


class DirectWriter(Writer):
    name = "direct"

    def __init__(
        self, addresses: Mapping[int, str], topic: str, partition: int, *, leader: int
    ) -> None:
        super().__init__()
        self._addresses = addresses
        self._topic, self._partition, self._leader = topic, partition, leader
        self._open = {number: Dialogue(address, "") for number, address in addresses.items()}
        self._order = list(addresses)

    def write(self) -> int:
        record = Record(key=None, value=b"direct", timestamp_ms=int(time.time() * 1000))
        data = PartitionProduceData(index=self._partition, records=build_batch([record]))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            node = self._leader
            if self._is_acked(node, request):
                return node
            if self._leader == node:  # nobody has named another
                self._leader = self._order[(self._order.index(node) + 1) % len(self._order)]
                time.sleep(PAUSE_SECONDS)
        raise TimeoutError(f"no ack within {PATIENCE_SECONDS:g} s")

    def close(self) -> None:
        for dialogue in self._open.values():
            dialogue.close()

    def _is_acked(self, node: int, request: ProduceRequest) -> bool:
        try:
            if node not in self._open:
                self._open[node] = Dialogue(self._addresses[node], "")
            reply = self._open[node].exchange(request, version=VERSION)
        except OSError:
            dialogue = self._open.pop(node, None)
            if dialogue is not None:
                dialogue.close()
            return False
        [answer] = reply.responses[0].partition_responses
        if answer.error_code == ErrorCode.NONE:
            return True
        if answer.error_code not in RETRIABLE:
            raise AssertionError(f"node {node} answered with error {answer.error_code}")
        named = answer.current_leader.leader_id if answer.current_leader is not None else NOBODY
        if named in self._addresses:
            self._leader = named
        return False


class ConfluentWriter(Writer):
    name = "confluent"

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__()
        self._topic, self._partition = topic, partition
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": QUIET,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": int(PATIENCE_SECONDS * 1000),
            }
        )

    def write(self) -> int:
        outcomes: list[confluent_kafka.KafkaError | None] = []
        self._producer.produce(
            self._topic,
            b"confluent",
            partition=self._partition,
            on_delivery=lambda error, _: outcomes.append(error),
        )
        while not outcomes:
            self._producer.poll(0.1)
        [error] = outcomes
        if error is not None:
            raise confluent_kafka.KafkaException(error)
        return NOBODY


class PenstockWriter(Writer):
    """Penstock's own client: it goes to the leader that a refusal names."""

    name = "penstock"

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__()
        self._bootstrap, self._topic, self._partition = bootstrap, topic, partition

    def _run(self) -> None:
        asyncio.run(self._write_all())

    async def _write_all(self) -> None:
        world = real_world(inline=True)
        addresses = parse_addresses(self._bootstrap)
        rules = ProducerRules(batches=BatchRules(linger_ms=0))
        async with (
            Cluster(world.network, world.clock, addresses) as cluster,
            Producer(cluster, rules=rules) as producer,
        ):
            while not self._over:
                begun, error = time.monotonic(), None
                try:
                    sent = await producer.send(self._topic, b"penstock", partition=self._partition)
                    await sent
                except ClientError as failure:
                    error = f"{type(failure).__name__}: {failure}"
                self._note(Written(begun, time.monotonic(), NOBODY, error))
                await asyncio.sleep(PAUSE_SECONDS)


class KafkaPythonWriter(Writer):
    """It learns of a new leader by metadata alone."""

    name = "kafka-python"

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__()
        self._topic, self._partition = topic, partition
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","), acks="all", enable_idempotence=True, linger_ms=0
        )

    def write(self) -> int:
        sent = self._producer.send(self._topic, value=b"kafka-python", partition=self._partition)
        sent.get(timeout=PATIENCE_SECONDS)
        return NOBODY

    def close(self) -> None:
        self._producer.close(timeout=5)
