"""How long acks take: an idempotent producer that notes it of each record."""

import time
from array import array
from collections.abc import Iterable
from typing import NamedTuple

import confluent_kafka

from rig.failover.acked_records import AckedRecords
from rig.failover.producers import ConfluentLedgerProducer


class Latency(NamedTuple):
    """Of the records that were sent within a span of time, in milliseconds."""

    records: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class TimedLedgerProducer(ConfluentLedgerProducer):
    """librdkafka; the time from a record's `produce` to its ack, without one for failures."""

    def __init__(self, bootstrap: str, topic: str, records: AckedRecords, *, rate: float) -> None:
        self.sent_at = array("d")  # of each number, seconds of the monotonic clock
        self.acked_at = array("d")  # 0: not yet
        super().__init__(bootstrap, topic, records, rate=rate)

    def _send(self, number: int) -> None:
        self.sent_at.append(time.monotonic())
        self.acked_at.append(0)
        super()._send(number)

    def _delivered(
        self,
        number: int,
        error: confluent_kafka.KafkaError | None,
        message: confluent_kafka.Message,
    ) -> None:
        if error is None:
            self.acked_at[number] = time.monotonic()
        super()._delivered(number, error, message)


def latency(
    producers: Iterable[TimedLedgerProducer], *, since: float, until: float
) -> Latency | None:
    """None when nothing that was sent in that time is acked."""
    taken = sorted(
        (acked - sent) * 1000
        for producer in producers
        for sent, acked in zip(producer.sent_at, producer.acked_at, strict=False)
        if since <= sent < until and acked
    )
    if not taken:
        return None
    return Latency(
        records=len(taken),
        p50_ms=taken[len(taken) // 2],
        p99_ms=taken[min(len(taken) - 1, len(taken) * 99 // 100)],
        max_ms=taken[-1],
    )
