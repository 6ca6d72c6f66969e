"""What every client can be asked, in words of ours; each module beside this one is one client.

Refusals carry Kafka's error codes, so that a scenario reads the same for all clients.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

# Larger than any message of the tests: it is the broker that shall refuse.
REQUEST_BYTES_MAX = 8 * 1024 * 1024
PATIENCE_SECONDS = 120.0

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    partition: int | None = None  # None: the client's own partitioner chooses
    timestamp_ms: int | None = None  # None: the client's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Refused(Exception):
    """The broker said no, with one of Kafka's error codes."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code


class KafkaClient(Protocol):
    name: str

    def produce(
        self, topic: str, messages: Sequence[Message], *, codec: str = "none", alone: bool = False
    ) -> list[Receipt | Refused]:
        """Idempotently, waiting for all acks; `alone` sends every message in a batch of its own."""

    def read(self, topic: str, partition: int, *, from_offset: int, count: int) -> list[Found]:
        """By assignment and seek, at least `count` messages or what came within our patience."""

    def offset_bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset and the one after the last."""

    def offset_at_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None: ...

    def create_topic(
        self, topic: str, *, partitions: int = 1, settings: dict[str, str] | None = None
    ) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def topics(self) -> set[str]: ...

    def partition_count(self, topic: str) -> int: ...

    def add_partitions(self, topic: str, *, total: int) -> None: ...

    def topic_settings(self, topic: str) -> dict[str, str]: ...

    def alter_topic(self, topic: str, settings: dict[str, str]) -> None: ...

    def delete_records(self, topic: str, partition: int, *, before_offset: int) -> int:
        """The first offset that is left."""

    def node_count(self) -> int: ...

    def close(self) -> None: ...
