"""Transactions of the Java client, generation 2 of the protocol, in the JVM that tests share."""

from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rig.apache_kafka.agent import JavaRefused, KafkaAgent
from rig.transactional.interface import (
    TRANSACTION_MS,
    Fenced,
    GroupWentOn,
    NothingOpen,
    Reads,
    Transactional,
)

FENCED = frozenset({47, 90})  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
NOTHING_OPEN = 48  # INVALID_TXN_STATE
GROUP_WENT_ON = "CommitFailedException"


class JavaTransactions:
    name = "java"

    def __init__(self, agent: KafkaAgent) -> None:
        self._agent = agent

    def producer(
        self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TRANSACTION_MS
    ) -> Transactional:
        settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": str(timeout_ms),
        }
        return JavaProducer(self._agent, settings)

    def reader(self, bootstrap: str, topic: str) -> Reads:
        return JavaConsumer(self._agent, topic, {"bootstrap.servers": bootstrap})

    def member(self, bootstrap: str, topic: str, *, group: str, protocol: str) -> Reads:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
        }
        return JavaConsumer(self._agent, topic, settings)


class JavaProducer:
    def __init__(self, agent: KafkaAgent, settings: dict[str, str]) -> None:
        self._agent = agent
        self._number = agent.ask("transaction_producer", settings=settings)

    def begin(self) -> None:
        self._ask("transaction_begin")

    def send(self, topic: str, value: bytes, *, partition: int = 0) -> None:
        told = b64encode(value).decode("ascii")
        self._ask("transaction_send", topic=topic, partition=partition, value=told)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._ask("transaction_offset", group=group, topic=topic, partition=0, offset=offset)

    def send_offsets_of(self, member: Reads) -> None:
        assert isinstance(member, JavaConsumer)
        self._ask("transaction_offsets_of", consumer=member.number)

    def commit(self) -> None:
        self._ask("transaction_commit")

    def abort(self) -> None:
        self._ask("transaction_abort")

    def close(self) -> None:
        self._ask("transaction_close_producer")

    def _ask(self, operation: str, **arguments: Any) -> None:
        with told_plainly():
            self._agent.ask(operation, producer=self._number, **arguments)


class JavaConsumer:
    """Of partition 0 when no group is among its settings, else a member of that group."""

    def __init__(self, agent: KafkaAgent, topic: str, settings: dict[str, str]) -> None:
        self._agent = agent
        self.number = agent.ask("transaction_consumer", topic=topic, settings=settings)

    def poll(self) -> list[bytes]:
        values = self._agent.ask("transaction_poll", consumer=self.number)
        return [b64decode(value) for value in values]

    def close(self) -> None:
        self._agent.ask("transaction_close_consumer", consumer=self.number)


@contextmanager
def told_plainly() -> Iterator[None]:
    try:
        yield
    except JavaRefused as failure:
        if failure.code in FENCED:
            raise Fenced(str(failure)) from failure
        if failure.code == NOTHING_OPEN:
            raise NothingOpen(str(failure)) from failure
        if failure.error == GROUP_WENT_ON:
            raise GroupWentOn(str(failure)) from failure
        raise
