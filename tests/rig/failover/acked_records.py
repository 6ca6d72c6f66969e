"""What producers were promised, and whether the cluster has kept it.

A producer numbers its records from 0 and sends number n to partition n modulo the number of
partitions. An ack names an offset: there, and nowhere else, that record must stand when all is
over. An ack without an offset is that of a duplicate which a broker knows by its sequence alone:
that record must stand once. One whose outcome is open may stand once, or not at all. In each
partition the numbers of a producer rise with the offsets.
"""

import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

NOT_ACKED, ACKED_SOMEWHERE = -1, -2
PADDING = bytes(200)
PATIENCE_SECONDS = 180.0
FAULTS_MAX = 20  # of one kind: the first ones say what is wrong


class FoundRecord(NamedTuple):
    partition: int
    offset: int
    value: bytes


def value_of(producer: str, number: int) -> bytes:
    return b"%s:%d:" % (producer.encode(), number) + PADDING


def origin_of(value: bytes) -> tuple[str, int]:
    """The producer and the number of a record."""
    producer, number, _ = value.split(b":", 2)
    return producer.decode(), int(number)


class AckedRecords:
    """Of one producer, which may tell of acks from any thread."""

    def __init__(self, producer: str, *, partitions: int) -> None:
        self.producer = producer
        self.partitions = partitions
        self.sent = 0
        self.count = 0  # of acks
        self.unplaced = 0  # of acks without an offset
        self.last_ack_at = time.monotonic()
        self.errors: Counter[str] = Counter()  # outcomes that are open, by what was said
        self.faults: list[str] = []
        self._offsets = array("q")
        self._changed = threading.Condition()

    def next_number(self) -> int:
        """That of the next record; it counts as sent."""
        with self._changed:
            number, self.sent = self.sent, self.sent + 1
            self._offsets.append(NOT_ACKED)
        return number

    def was_sent(self, count: int) -> None:
        """So many records were sent, by a producer that counts itself."""
        with self._changed:
            missing = count - len(self._offsets)
            self._offsets.extend([NOT_ACKED] * missing)
            self.sent = max(self.sent, count)

    def is_acked(self, number: int) -> bool:
        return self._offsets[number] != NOT_ACKED

    @property
    def open(self) -> int:
        """Records that were sent and not acked: given up, under way, or never answered."""
        return self.sent - self.count

    def offset_of(self, number: int) -> int | None:
        """Where it was acked, if an offset was told."""
        return self._offsets[number] if self._offsets[number] >= 0 else None

    def acked(self, number: int, *, partition: int, offset: int | None) -> None:
        with self._changed:
            if self.is_acked(number):
                self._fault(f"{number} was acked twice")
            elif partition != number % self.partitions:
                self._fault(f"{number} was acked at partition {partition}")
            else:
                placed = ACKED_SOMEWHERE if offset is None or offset < 0 else offset
                self._offsets[number] = placed
                self.unplaced += placed == ACKED_SOMEWHERE
                self.count += 1
            self.last_ack_at = time.monotonic()
            self._changed.notify_all()

    def failed(self, number: int, error: str) -> None:
        """Nobody has said what became of it."""
        with self._changed:
            self.errors[error] += 1
            self._changed.notify_all()

    def broke(self, reason: str) -> None:
        """The producer does not go on."""
        with self._changed:
            self._fault(reason)
            self._changed.notify_all()

    def until(self, is_so: Callable[[], bool], *, what: str) -> None:
        """Waits for acks; what the caller knows of them is asked again after each."""
        with self._changed:
            reached = self._changed.wait_for(lambda: is_so() or self.faults, PATIENCE_SECONDS)
        if not reached:
            silent = time.monotonic() - self.last_ack_at
            raise NoProgress(
                f"{self.producer}: {what}: {self.count} acks of {self.sent},"
                f" none for {silent:.0f} s, errors {dict(self.errors)}"
            )

    def _fault(self, text: str) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(f"{self.producer}: {text}")


class NoProgress(Exception):
    """Records were not acked for too long, and whose."""


def unacked(promised: Iterable[AckedRecords]) -> list[str]:
    """What is wrong with producers that have ended, and were to try until all was acked."""
    return [fault for records in promised for fault in _unacked(records)]


def _unacked(records: AckedRecords) -> Iterator[str]:
    for error, count in records.errors.items():
        yield f"{records.producer}: {count} of {records.sent} records were given up: {error}"
    unanswered = records.open - records.errors.total()
    if unanswered > 0:
        counted = f"{unanswered} of {records.sent} records"
        yield f"{records.producer}: {counted} were neither acked nor given up"


def judge(promised: Iterable[AckedRecords], found: Iterable[FoundRecord]) -> list[str]:
    """What is wrong with the records of all partitions, each partition from its start in order."""
    by_name = {records.producer: records for records in promised}
    faults = {name: list(records.faults) for name, records in by_name.items()}
    for name, faulty in _broken(by_name, found):
        if len(faults.setdefault(name, [])) < FAULTS_MAX:
            faults[name].append(faulty)
    return [fault for of_one in faults.values() for fault in of_one]


def _broken(
    by_name: dict[str, AckedRecords], found: Iterable[FoundRecord]
) -> Iterator[tuple[str, str]]:
    """Producer and fault."""
    expected: dict[int, int] = {}
    reached: dict[tuple[str, int], int] = {}
    seen = {name: bytearray(records.sent) for name, records in by_name.items()}
    for partition, offset, value in found:
        if offset != expected.get(partition, 0):
            gap = f"{partition}: offset {offset} follows {expected.get(partition, 0) - 1}"
            yield "offsets", f"partition {gap}"
        expected[partition] = offset + 1
        name, number = origin_of(value)
        records = by_name.get(name)
        place = f"{name}: {number} stands at partition {partition}, offset {offset}"
        if records is None or number >= records.sent:
            yield name, f"{place}, and was never sent"
            continue
        if seen[name][number]:
            yield name, f"{place}, and another time"
            continue
        seen[name][number] = 1
        acked = records.offset_of(number)
        if acked not in (None, offset):
            yield name, f"{place}, and was acked at offset {acked}"
        if partition != number % records.partitions:
            yield name, f"{place}, and was sent to partition {number % records.partitions}"
        last = reached.get((name, partition), -1)
        if number < last:
            yield name, f"{place}, after {last}"
        reached[name, partition] = max(number, last)
    for name, records in by_name.items():
        for number in range(records.sent):
            if records.is_acked(number) and not seen[name][number]:
                where = f"partition {number % records.partitions}"
                where += f", offset {records.offset_of(number)}"
                yield name, f"{name}: {number} was acked at {where}, and is lost"
