"""A node killed under load, again and again: every record it acked is there afterwards, once."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import confluent_kafka

from rig.clients.confluent import QUIET, ConfluentClient
from rig.serve import ServedNode

TOPIC = "ledger"
PARTITIONS = 3
RECORDS_A_ROUND = 1_500
ACKS_BEFORE_A_KILL = 300
PATIENCE_SECONDS = 120.0


class Load:
    """An idempotent producer on a thread of its own, that outlives the node's deaths.

    It sends numbered values, as many as it was allowed, and remembers where each was acked.
    """

    def __init__(self, bootstrap: str) -> None:
        self.acked: dict[int, tuple[int, int]] = {}
        self.sent = 0
        self.faults: list[str] = []
        self._allowed = 0
        self._over = False
        self._changed = threading.Condition()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": QUIET,
                "enable.idempotence": True,
                # Small batches, so that a kill finds many under way.
                "batch.num.messages": 20,
                "linger.ms": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
            }
        )
        self._thread = threading.Thread(target=self._run, name="load")
        self._thread.start()

    def allow(self, count: int) -> None:
        with self._changed:
            self._allowed += count
            self._changed.notify_all()

    def await_acks(self, count: int) -> None:
        with self._changed:
            reached = self._changed.wait_for(
                lambda: len(self.acked) >= count or self.faults, PATIENCE_SECONDS
            )
        assert reached, f"{len(self.acked)} of {count} acks"
        assert not self.faults, self.faults[:3]

    def finish(self) -> None:
        with self._changed:
            self._over = True
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._over:
            while self.sent < self._allowed and not self._over:
                number, self.sent = self.sent, self.sent + 1
                self._producer.produce(
                    TOPIC,
                    b"%d" % number + bytes(200),
                    partition=number % PARTITIONS,
                    on_delivery=partial(self._delivered, number),
                )
            self._producer.poll(0.01)
        self._producer.flush(PATIENCE_SECONDS)

    def _delivered(
        self,
        number: int,
        error: confluent_kafka.KafkaError | None,
        message: confluent_kafka.Message,
    ) -> None:
        partition, offset = message.partition(), message.offset()
        with self._changed:
            if error is not None or partition is None or offset is None:
                self.faults.append(str(error))
            else:
                self.acked[number] = (partition, offset)
            self._changed.notify_all()


@dataclass(slots=True, kw_only=True)
class KillReport:
    """How far it has come, and at the end what is wrong."""

    kills: int = 0
    acked: int = 0
    under_way: int = 0  # sent and not acked at the moments of the kills
    restart_seconds: float = 0.0  # of all starts together
    faults: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        return (
            f"kills {self.kills}, records acked {self.acked:,}, {self.under_way:,} under way when "
            f"killed, restarts {self.restart_seconds / max(1, self.kills):.2f} s each, "
            f"faults {len(self.faults)}"
        )


def kill_under_load(
    node: ServedNode, *, kills: int, told: Callable[[KillReport], None] = lambda report: None
) -> KillReport:
    """Kills a running node that many times while it is written to, and compares at the end."""
    make_topic(node)
    load = Load(node.bootstrap)
    report = KillReport()
    try:
        for round_number in range(kills):
            load.allow(RECORDS_A_ROUND)
            load.await_acks(round_number * RECORDS_A_ROUND + ACKS_BEFORE_A_KILL)
            node.kill()
            report.under_way += load.sent - len(load.acked)
            started = time.monotonic()
            node.start()
            report.restart_seconds += time.monotonic() - started
            load.await_acks((round_number + 1) * RECORDS_A_ROUND)
            report.kills, report.acked = round_number + 1, len(load.acked)
            told(report)
    finally:
        load.finish()
    if not len(load.acked) == load.sent == kills * RECORDS_A_ROUND:
        report.faults.append(f"{len(load.acked)} acked of {load.sent} sent")
    report.faults += differences(stored(node.bootstrap), load.acked)
    return report


def make_topic(node: ServedNode) -> None:
    client = ConfluentClient(node.bootstrap)
    client.create_topic(TOPIC, partitions=PARTITIONS)
    client.close()


def stored(bootstrap: str) -> dict[int, tuple[int, int]]:
    """Where each number stands; on the way, that none stands twice and no offset is missing."""
    client = ConfluentClient(bootstrap)
    places: dict[int, tuple[int, int]] = {}
    try:
        for partition in range(PARTITIONS):
            first, end = client.offset_bounds(TOPIC, partition)
            found = client.read(TOPIC, partition, from_offset=first, count=end - first)
            assert [record.offset for record in found] == list(range(end))
            for record in found:
                number = int((record.value or b"").rstrip(b"\0"))
                assert number not in places, f"{number} stands twice"
                places[number] = (partition, record.offset)
    finally:
        client.close()
    return places


def differences(found: dict[int, tuple[int, int]], acked: dict[int, tuple[int, int]]) -> list[str]:
    return [
        f"{number}: acked at {acked.get(number)}, stands at {found.get(number)}"
        for number in sorted(found.keys() | acked.keys())
        if found.get(number) != acked.get(number)
    ]
