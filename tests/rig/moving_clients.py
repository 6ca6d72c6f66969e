"""Clients that work all the time, and are moved from one way into a cluster to another.

    MovingWriter   an idempotent producer with acks of all; its records are numbered from 0 on
    MovingReader   the only member of a group, which commits each record that it has read
    WaysIn         tries with new clients whether the ways that must be open are

A way is what `confluent_kafka` needs to come in. An error that reaches an application is kept.
"""

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from rig.clients.confluent import QUIET
from rig.cluster_questions import until

Way = Mapping[str, str | int]
PAUSE_SECONDS = 0.02
PROBE_SECONDS = 0.2
WAIT_SECONDS = 60
POLL_SECONDS = 0.1
GOING_ON = 20  # records, to see that a client goes on


class _Moving(threading.Thread):
    """Works by one way until it is moved to another, or ends."""

    def __init__(self, name: str, way: Way) -> None:
        super().__init__(name=name)
        self.errors: list[str] = []
        self._way = way
        self._leave = threading.Event()  # the way by which it works now
        self._moved = threading.Event()
        self._ending = False

    def move(self, way: Way) -> None:
        """Returns when it works by the other way."""
        self._way = way
        self._moved.clear()
        self._leave.set()
        assert self._moved.wait(WAIT_SECONDS), f"{self.name} was not moved: {self.errors}"

    def finish(self) -> None:
        self._ending = True
        self._leave.set()
        self.join(WAIT_SECONDS)
        assert not self.is_alive(), self.name

    def has_come_to(self, count: int) -> bool:
        return self.count >= count

    def run(self) -> None:
        while not self._ending:
            self._leave.clear()
            way = {**self._way, "log_level": QUIET}
            self._moved.set()
            self._work(way)

    @property
    @abstractmethod
    def count(self) -> int:
        """Records so far."""

    @abstractmethod
    def _work(self, way: Way) -> None:
        """Until `_leave` is set."""


def until_go_on(clients: Sequence[_Moving]) -> None:
    """All of them, counted from the same moment on."""
    wanted = [(one, one.count + GOING_ON) for one in clients]
    for one, count in wanted:
        until(f"{one.name} goes on: {one.errors}", partial(one.has_come_to, count))


class MovingWriter(_Moving):
    def __init__(self, name: str, way: Way, topic: str, *, partitions: int) -> None:
        super().__init__(name, way)
        self.acked: list[str] = []
        self._topic = topic
        self._partitions = partitions
        self._sent = 0

    @property
    def count(self) -> int:
        return len(self.acked)

    @property
    def sent(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(self._sent)]

    def _work(self, way: Way) -> None:
        producer = Producer({**way, "enable.idempotence": True, "acks": "all"})
        while not self._leave.wait(PAUSE_SECONDS):
            producer.produce(
                self._topic,
                f"{self.name}-{self._sent}",
                partition=self._sent % self._partitions,
                on_delivery=self._delivered,
            )
            self._sent += 1
            producer.poll(0)
        left = producer.flush(WAIT_SECONDS)
        if left:
            self.errors.append(f"{left} records were not acked")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        if error is None:
            self.acked.append(value.decode())
        else:
            self.errors.append(f"{value.decode()}: {error}")


class MovingReader(_Moving):
    def __init__(self, name: str, way: Way, topic: str) -> None:
        super().__init__(name, way)
        self.read: list[str] = []
        self._topic = topic

    @property
    def count(self) -> int:
        return len(self.read)

    def _work(self, way: Way) -> None:
        consumer = Consumer(
            {
                **way,
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                # With the default, librdkafka forgets a broker that is stopped, but not that it
                # coordinates the group; then a commit may never return.
                "metadata.recovery.strategy": "none",
            }
        )
        consumer.subscribe([self._topic])
        while not self._leave.is_set():
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                continue
            error, value = message.error(), message.value()
            if error is not None:
                self.errors.append(str(error))
                continue
            assert value is not None
            self.read.append(value.decode())
            try:
                consumer.commit(message=message, asynchronous=False)
            except KafkaException as refused:
                self.errors.append(str(refused))
        consumer.close()


class WaysIn(threading.Thread):
    """`require` says which ways must be open from now on; `shut` has those that were not."""

    def __init__(self) -> None:
        super().__init__(name="ways in")
        self.shut: list[str] = []
        self.opened = 0
        self._required: dict[str, Way] = {}
        self._trying = threading.Lock()
        self._ending = threading.Event()

    def require(self, **ways: Way) -> None:
        with self._trying:
            self._required = ways

    def finish(self) -> None:
        self._ending.set()
        self.join(WAIT_SECONDS)

    def run(self) -> None:
        while not self._ending.wait(PROBE_SECONDS):
            with self._trying:
                for name, way in self._required.items():
                    self._try(name, way)

    def _try(self, name: str, way: Way) -> None:
        try:
            AdminClient({**way, "log_level": QUIET}).list_topics(timeout=WAIT_SECONDS)
            self.opened += 1
        except KafkaException as error:
            self.shut.append(f"{name}: {error}")
