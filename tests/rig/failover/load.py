"""The producers of an ordeal together, and what they were promised."""

from rig.failover.acked_records import AckedRecords, unacked
from rig.failover.producers import ALL, LedgerProducer, start_producers

ACKS_BETWEEN = 20  # of each producer, from one fault to the next


class LedgerLoad:
    """One producer of each client library, from now until `finish`."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        partitions: int,
        rate: float,
        java: list[str] | None,
        acks: str = ALL,
    ) -> None:
        self._acks = acks
        self._producers: list[LedgerProducer] = start_producers(
            bootstrap, topic, partitions=partitions, rate=rate, java=java, acks=acks
        )

    @property
    def records(self) -> list[AckedRecords]:
        return [producer.records for producer in self._producers]

    @property
    def clients(self) -> str:
        """Those that take part: not every machine has Java."""
        return ", ".join(producer.client for producer in self._producers)

    @property
    def acked(self) -> int:
        return sum(one.count for one in self.records)

    @property
    def unplaced(self) -> int:
        """Acks of duplicates that named no offset."""
        return sum(one.unplaced for one in self.records)

    @property
    def open(self) -> int:
        """Records that were sent and not acked: once finished, nobody knows their outcome."""
        return sum(one.open for one in self.records)

    @property
    def errors(self) -> str:
        """What clients said of records that they gave up."""
        return "; ".join(
            f"{one.producer}: {dict(one.errors)}" for one in self.records if one.errors
        )

    @property
    def faults(self) -> list[str]:
        """Once finished: what was not acked. Clients try for longer than any fault lasts, so with
        acks of all there is nothing; with others they may give up what a leader has lost.
        """
        return unacked(self.records) if self._acks == ALL else []

    def until_more_acked(self) -> None:
        """Each producer has gone on since it was called."""
        for records in self.records:
            _until_more_acked(records)

    def finish(self) -> None:
        """Waits for the acks of all that was sent."""
        for producer in self._producers:
            producer.finish()


def _until_more_acked(records: AckedRecords) -> None:
    wanted = records.count + ACKS_BETWEEN
    records.until(lambda: records.count >= wanted, what=f"waited for {ACKS_BETWEEN} more acks")
