"""What a transactional test asks of a client library, the same of each."""

import time
from collections.abc import Callable
from typing import Protocol

PATIENCE_SECONDS = 120.0
TRANSACTION_MS = 60_000


class Fenced(Exception):
    """Whoever asks is not, or not any more, the one that the transactional id belongs to."""


class NothingOpen(Exception):
    """The broker has ended the transaction: there is nothing to commit."""


class GroupWentOn(Exception):
    """The offsets were refused: whoever sends them is no member of the group any more."""


class Reads(Protocol):
    """A consumer that sees what is committed, alone or as a member of a group."""

    def poll(self) -> list[bytes]:
        """The values that are there, in order; none after a short wait."""

    def close(self) -> None: ...


class Transactional(Protocol):
    """A producer with a transactional id. Every call returns when the broker has answered."""

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes, *, partition: int = 0) -> None: ...

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """An offset of partition 0, for a group without members."""

    def send_offsets_of(self, member: Reads) -> None:
        """How far a member of the same library has read, with what it knows of its group."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class TransactionalClient(Protocol):
    name: str

    def producer(
        self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TRANSACTION_MS
    ) -> Transactional: ...

    def reader(self, bootstrap: str, topic: str) -> Reads:
        """Of partition 0, from the start."""

    def member(self, bootstrap: str, topic: str, *, group: str, protocol: str) -> Reads: ...


def take(consumer: Reads, count: int) -> list[bytes]:
    """At least so many values, which may take a while; more only if they came with the last."""
    taken: list[bytes] = []

    def enough() -> bool:
        taken.extend(consumer.poll())
        return len(taken) >= count

    await_that(enough, f"{count} values")
    return taken


def await_that(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not so within {PATIENCE_SECONDS:.0f} s: {what}"
