"""A node that is killed under load keeps every record it acked, once, and numbers without gaps."""

import threading
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from rig.clients.confluent import QUIET, ConfluentClient
from rig.serve import ServedNode

TOPIC = "ledger"
PARTITIONS = 3
KILLS = 20
RECORDS_A_ROUND = 1_500
ACKS_BEFORE_A_KILL = 300
PATIENCE_SECONDS = 60.0


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
                    on_delivery=lambda error, message, number=number: self._delivered(
                        number, error, message
                    ),
                )
            self._producer.poll(0.01)
        self._producer.flush(PATIENCE_SECONDS)

    def _delivered(
        self,
        number: int,
        error: confluent_kafka.KafkaError | None,
        message: confluent_kafka.Message,
    ) -> None:
        with self._changed:
            if error is not None:
                self.faults.append(error.str())
            else:
                self.acked[number] = (message.partition(), message.offset())
            self._changed.notify_all()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    served = ServedNode(data=tmp_path / "data")
    served.start()
    client = ConfluentClient(served.bootstrap)
    client.create_topic(TOPIC, partitions=PARTITIONS)
    client.close()
    yield served
    if served.running:
        served.kill()


@pytest.mark.timeout(180)
def test_every_acked_record_outlives_twenty_kills_and_stands_once(node: ServedNode) -> None:
    load = Load(node.bootstrap)
    try:
        for round_number in range(KILLS):
            load.allow(RECORDS_A_ROUND)
            load.await_acks(round_number * RECORDS_A_ROUND + ACKS_BEFORE_A_KILL)
            node.kill()
            node.start()
            load.await_acks((round_number + 1) * RECORDS_A_ROUND)
    finally:
        load.finish()
    assert len(load.acked) == load.sent == KILLS * RECORDS_A_ROUND
    assert stored(node.bootstrap) == load.acked


def test_a_clean_stop_loses_nothing_and_the_next_start_scans_no_segment(node: ServedNode) -> None:
    load = Load(node.bootstrap)
    load.allow(RECORDS_A_ROUND)
    load.await_acks(RECORDS_A_ROUND)
    load.finish()
    assert node.stop() == 0
    before = len(node.logged())
    node.start()
    assert "segments_scanned=0" in node.logged()[before:]
    assert stored(node.bootstrap) == load.acked


def test_a_start_after_a_kill_scans_what_was_not_closed(node: ServedNode) -> None:
    load = Load(node.bootstrap)
    load.allow(RECORDS_A_ROUND)
    load.await_acks(RECORDS_A_ROUND)
    load.finish()
    node.kill()
    before = len(node.logged())
    node.start()
    assert "segments_scanned=" in node.logged()[before:]
    assert "segments_scanned=0" not in node.logged()[before:]
    assert stored(node.bootstrap) == load.acked


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
