"""Topics that are created, configured and deleted all the time, by AdminClients of confluent-kafka
on threads of their own. What was acknowledged is in the ledger of each.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.model.identity import id_bytes
from rig.clients.confluent import QUIET
from rig.cluster_questions import SETTING
from rig.topic_ledger import Deletion, LedgerEntry

PATIENCE_SECONDS = 120.0
REQUEST_SECONDS = 5.0
PAUSE_SECONDS = 0.03  # between operations: the clients are not what is to be busy
CHANGES = 3  # of the setting of each topic
KEPT_OF = 10  # one topic of so many is not deleted
FIRST_VALUE = 1_000_000
# It may have been done, or not: nobody has said.
OPEN = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NETWORK_EXCEPTION,
    }
)


class Outcome(Enum):
    ACKED = "acked"
    OPEN = "open"
    REPEATED = "repeated"  # a broker sent it to the next controller, after it was done by the last
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """That was acknowledged: when it was asked for, and when that was."""

    begun: float
    ended: float


class AdminLoad:
    """Works while `running`, until `finish`."""

    def __init__(self, bootstrap: str, *, workers: int = 2) -> None:
        self.creations: list[Creation] = []
        self.acked = 0
        self.open = 0
        self.repeated: list[str] = []  # creations that were refused since the topic exists
        self.unexpected: list[str] = []
        self._over = False
        self._is_wanted = threading.Event()
        self._changed = threading.Condition()
        self._workers = [_Worker(self, bootstrap, number) for number in range(workers)]
        self._threads = [threading.Thread(target=worker.run) for worker in self._workers]
        for thread in self._threads:
            thread.start()

    @property
    def entries(self) -> Iterator[LedgerEntry]:
        """Complete once it has finished."""
        return (entry for worker in self._workers for entry in worker.entries)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._is_wanted.set()
        try:
            yield
        finally:
            self._is_wanted.clear()

    def goes_on(self) -> bool:
        """Waits while it is not to work; False when it is over."""
        self._is_wanted.wait()
        return not self._over

    def first_after(self, moment: float) -> Creation:
        """The first acknowledged creation of those that were begun after this moment."""
        found: list[Creation] = []

        def is_there() -> bool:
            found[:] = [one for one in self.creations if one.begun > moment]
            return bool(found)

        with self._changed:
            assert self._changed.wait_for(is_there, PATIENCE_SECONDS), "no topic was created"
        return min(found, key=lambda one: one.ended)

    def finish(self) -> None:
        self._over = True
        self._is_wanted.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()

    def note(self, what: str, error: KafkaError | None) -> Outcome:
        with self._changed:
            if error is None:
                self.acked += 1
                return Outcome.ACKED
            if error.code() in OPEN:
                self.open += 1
                return Outcome.OPEN
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                self.repeated.append(what)
                return Outcome.REPEATED
            self.unexpected.append(f"{what}: {error}")
            return Outcome.REFUSED

    def note_creation(self, creation: Creation) -> None:
        with self._changed:
            self.creations.append(creation)
            self._changed.notify_all()


class _Worker:
    """One client; its operations come one after the other."""

    def __init__(self, load: AdminLoad, bootstrap: str, number: int) -> None:
        self.entries: list[LedgerEntry] = []
        self._load = load
        self._number = number
        self._bootstrap = bootstrap
        self._admin = self._new_client()

    def run(self) -> None:
        values = count(FIRST_VALUE)
        for number in count():
            if not self._load.goes_on():
                return
            entry = LedgerEntry(name=f"load-{self._number}-{number}")
            self.entries.append(entry)
            if self._create(entry) is not Outcome.ACKED:
                continue
            entry.topic_id = self._topic_id(entry.name)
            for _ in range(CHANGES):
                self._set(entry, next(values))
            if number % KEPT_OF:
                self._delete(entry)

    def _create(self, entry: LedgerEntry) -> Outcome:
        begun = time.monotonic()
        topic = NewTopic(entry.name, num_partitions=1, replication_factor=1)
        outcome = self._do(f"create {entry.name}", lambda: self._created([topic]))
        entry.is_acked = outcome in (Outcome.ACKED, Outcome.REPEATED)
        if outcome is Outcome.ACKED:
            self._load.note_creation(Creation(begun=begun, ended=time.monotonic()))
        return outcome

    def _created(self, topics: list[NewTopic]) -> Iterable[Future[Any]]:
        return self._admin.create_topics(topics, request_timeout=REQUEST_SECONDS).values()

    def _set(self, entry: LedgerEntry, value: int) -> None:
        operation = ConfigEntry(SETTING, str(value), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, entry.name, incremental_configs=[operation])
        outcome = self._do(
            f"set {entry.name} to {value}",
            lambda: self._admin.incremental_alter_configs(
                [resource], request_timeout=REQUEST_SECONDS
            ).values(),
        )
        if outcome is Outcome.ACKED:
            entry.value = value
            entry.open_values.clear()
        elif outcome is Outcome.OPEN:
            entry.open_values.add(value)

    def _delete(self, entry: LedgerEntry) -> None:
        outcome = self._do(
            f"delete {entry.name}",
            lambda: self._admin.delete_topics(
                [entry.name], request_timeout=REQUEST_SECONDS
            ).values(),
        )
        if outcome is Outcome.ACKED:
            entry.deletion = Deletion.DONE
        elif outcome is Outcome.OPEN:
            entry.deletion = Deletion.OPEN

    def _topic_id(self, name: str) -> bytes:
        """As any broker gives it; one that has just learnt of the topic may be asked again."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            asked = self._admin.describe_topics(TopicCollection([name]), request_timeout=2.0)
            try:
                return id_bytes(str(asked[name].result(PATIENCE_SECONDS).topic_id))
            except KafkaException as refusal:
                if refusal.args[0].code() in OPEN:
                    self._admin = self._new_client()
                assert time.monotonic() < deadline, f"{name} was created, and nobody knows it"
                time.sleep(PAUSE_SECONDS)

    def _do(self, what: str, begin: Callable[[], Iterable[Future[Any]]]) -> Outcome:
        time.sleep(PAUSE_SECONDS)
        try:
            for future in begin():
                future.result(PATIENCE_SECONDS)
        except KafkaException as refusal:
            # librdkafka may wait for a dead broker that it was told to send admin requests to, as
            # Apache Kafka does until the session has expired, and spin meanwhile.
            self._admin = self._new_client()
            return self._load.note(what, refusal.args[0])
        return self._load.note(what, None)

    def _new_client(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": QUIET})
