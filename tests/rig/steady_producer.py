"""Records that go on being written while a test does something else, each to be found again.

The records of a partition are numbered from 1 on.
"""

import threading
from types import TracebackType

from confluent_kafka import KafkaError, Message, Producer

from rig.clients.confluent import QUIET

PAUSE_SECONDS = 0.01  # between rounds of one record a partition


class SteadyProducer:
    """`with SteadyProducer(...) as producer:`; afterwards `stored` has what was acked."""

    def __init__(
        self,
        *,
        bootstrap: str,
        topic: str,
        partitions: int,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self.stored: list[tuple[int, int]] = []  # partition, offset
        self._topic = topic
        self._partitions = partitions
        self._pause_seconds = pause_seconds
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": QUIET})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._produce)

    def __enter__(self) -> "SteadyProducer":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _produce(self) -> None:
        rounds = 0
        while not self._stopping.wait(self._pause_seconds):
            rounds += 1
            for partition in range(self._partitions):
                self._producer.produce(
                    self._topic,
                    b"%d" % rounds,
                    partition=partition,
                    on_delivery=self._delivered,
                )
            self._producer.poll(0)
        self._producer.flush()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        self.stored.append((partition, offset))
