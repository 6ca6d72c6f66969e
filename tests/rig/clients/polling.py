"""A member of a group that polls in the background, while a test looks at the group."""

import threading
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, TopicPartition

ASSIGNED_SECONDS_MAX = 120


class PollingMember:
    """Use as `with`: it has been assigned partitions when the block begins, and left at its end."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: object) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **given,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned)
        self._ready = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(ASSIGNED_SECONDS_MAX):
            self.__exit__(None, None, None)
            raise TimeoutError("no partitions were assigned")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._ready.set()

    def _poll(self) -> None:
        while not self._stop.is_set():
            self._consumer.poll(0.05)
        self._consumer.close()


def commit(bootstrap: str, group: str, offsets: list[TopicPartition]) -> None:
    """Commits as one who is in no group's way: without members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
