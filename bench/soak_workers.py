"""Who works in a soak: producers, consumers and passers-by, each checking all that it is told.

- The stream: each partition has one producer, so that record N stands at offset N, and its value
  follows from partition and number alone. Acks are checked against the number, reads against both.
- The table: a compacted topic, compared with a dictionary now and then, from its beginning.
- Passers-by: topics, connections, fetch sessions and producer ids that come and go.
"""

import random
import socket
import time

from asking import FETCH_VERSION, Asking
from confluent_kafka import KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from soak_load import (
    CRITICAL,
    PATIENCE_SECONDS,
    PRODUCERS,
    STREAM,
    TABLE,
    VISITS,
    Ledger,
    consumer_of,
    producer_of,
    settle,
    value_of,
)

from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

TURNS_A_SECOND = 10
TABLE_KEYS = 500
DELETION_EVERY = 10
VISIT_RECORDS = 20


class Streamer:
    """The one producer of a partition of the stream."""

    pause_seconds = 1 / TURNS_A_SECOND

    def __init__(self, bootstrap: str, ledger: Ledger, *, partition: int, rate: int) -> None:
        codec, idempotent = PRODUCERS[partition]
        self._producer = producer_of(bootstrap, codec=codec, idempotent=idempotent)
        self._ledger = ledger
        self._partition = partition
        self._records_a_turn = max(1, rate // TURNS_A_SECOND)
        self._sent = 0

    def turn(self) -> None:
        for _ in range(self._records_a_turn):
            value = value_of(self._partition, self._sent)
            self._sent += 1
            self._producer.produce(
                STREAM, value, partition=self._partition, on_delivery=self._delivered
            )
        self._producer.poll(0)

    def finish(self) -> None:
        left = self._producer.flush(PATIENCE_SECONDS)
        self._ledger.expect(left == 0, f"stream-{self._partition}: {left} records never answered")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._ledger.fault(f"stream-{self._partition}: not acked, {error}")
            return
        self._ledger.count("acked")
        self._ledger.count(f"stream-{self._partition} acked")
        wanted = value_of(self._partition, message.offset() or 0)
        if message.value() != wanted:
            self._ledger.fault(f"stream-{self._partition}: acked at {message.offset()}, not there")


class Tailer:
    """Reads the whole stream as it grows; at the end, all of it has been read."""

    pause_seconds = 0.0

    def __init__(self, bootstrap: str, ledger: Ledger, *, name: str) -> None:
        self._ledger = ledger
        self._name = name
        self._next = dict.fromkeys(range(len(PRODUCERS)), 0)
        self._consumer = consumer_of(bootstrap)
        self._consumer.assign([TopicPartition(STREAM, index, 0) for index in self._next])

    def turn(self) -> None:
        messages = self._consumer.consume(500, 0.2)
        for message in messages:
            self._take(message)
        self._ledger.count("tailed", len(messages))

    def finish(self) -> None:
        """What producers finish meanwhile is read too: three seconds without news are the end."""
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < 3:
            before = dict(self._next)
            self.turn()
            if self._next != before:
                quiet_since = time.monotonic()
        counts = self._ledger.counts()
        for partition, end in self._next.items():
            acked = counts[f"stream-{partition} acked"]
            self._ledger.expect(
                end == acked, f"{self._name} read {end} of stream-{partition}, acked are {acked}"
            )
        self._consumer.close()

    def _take(self, message: Message) -> None:
        if (error := message.error()) is not None:
            self._ledger.fault(f"{self._name}: {error}")
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        if offset != self._next[partition]:
            self._ledger.fault(f"{self._name}: {offset} after {self._next[partition] - 1}")
        if message.value() != value_of(partition, offset):
            self._ledger.fault(f"{self._name}: wrong record at {offset} of stream-{partition}")
        self._next[partition] = offset + 1


class Reader:
    """A consumer that comes, reads a stretch of what is retained, and goes."""

    pause_seconds = 2.0

    def __init__(self, bootstrap: str, ledger: Ledger) -> None:
        self._bootstrap = bootstrap
        self._ledger = ledger
        self._dice = random.Random(2)

    def turn(self) -> None:
        consumer = consumer_of(self._bootstrap)
        place = TopicPartition(STREAM, self._dice.randrange(len(PRODUCERS)))
        start, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_SECONDS)
        if end > start:
            # The older half may be gone before it is read.
            place.offset = self._dice.randrange((start + end) // 2, end)
            consumer.assign([place])
            for message in consumer.consume(min(200, end - place.offset), 1.0):
                wanted = value_of(place.partition, message.offset() or 0)
                if message.error() is not None or message.value() != wanted:
                    self._ledger.fault(f"reader: wrong record in {place}: {message.error()}")
                self._ledger.count("read again")
        consumer.close()

    def finish(self) -> None:
        pass


class TableKeeper:
    """Updates and deletes keys of a compacted topic, and compares it with a dictionary."""

    pause_seconds = 1 / TURNS_A_SECOND
    turns_between_looks = 30 * TURNS_A_SECOND

    def __init__(self, bootstrap: str, ledger: Ledger, *, rate: int) -> None:
        self._bootstrap = bootstrap
        self._ledger = ledger
        self._producer = producer_of(bootstrap, codec="lz4", idempotent=True)
        self._records_a_turn = max(1, rate // TURNS_A_SECOND)
        self._known: dict[bytes, bytes] = {}
        self._number = 0
        self._turns = 0
        self._dice = random.Random(3)

    def turn(self) -> None:
        for _ in range(self._records_a_turn):
            key = b"key-%d" % self._dice.randrange(TABLE_KEYS)
            value = None if self._number % DELETION_EVERY == 0 else value_of(0, self._number)
            self._number += 1
            if value is None:
                self._known.pop(key, None)
            else:
                self._known[key] = value
            self._producer.produce(TABLE, value, key, on_delivery=self._delivered)
        self._producer.poll(0)
        self._turns += 1
        if self._turns % self.turns_between_looks == 0:
            self.finish()

    def finish(self) -> None:
        left = self._producer.flush(PATIENCE_SECONDS)
        self._ledger.expect(left == 0, f"table: {left} records never answered")
        found, read = self._read()
        wrong = sum(
            found.get(key) != self._known.get(key) for key in sorted(found.keys() | self._known)
        )
        self._ledger.expect(wrong == 0, f"table: {wrong} keys are wrong at {self._number} updates")
        self._ledger.count("tables compared")
        self._ledger.count("table records read", read)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._ledger.count("acked")
        else:
            self._ledger.fault(f"table: not acked, {error}")

    def _read(self) -> tuple[dict[bytes, bytes], int]:
        consumer = consumer_of(self._bootstrap)
        start, end = consumer.get_watermark_offsets(
            TopicPartition(TABLE, 0), timeout=PATIENCE_SECONDS
        )
        consumer.assign([TopicPartition(TABLE, 0, start)])
        found: dict[bytes, bytes] = {}
        read, next_offset = 0, start
        deadline = time.monotonic() + PATIENCE_SECONDS
        # The newest record of a log is never compacted away, so its offset is always met.
        while next_offset < end and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.5):
                key, value = message.key() or b"", message.value()
                if value is None:
                    found.pop(key, None)
                else:
                    found[key] = value
                read, next_offset = read + 1, (message.offset() or 0) + 1
        self._ledger.expect(next_offset == end, f"table: read to {next_offset}, it ends at {end}")
        consumer.close()
        return found, read


class Visitor:
    """A producer id for a few records in a topic that stays, and a topic that does not."""

    pause_seconds = 3.0

    def __init__(self, bootstrap: str, ledger: Ledger) -> None:
        self._bootstrap = bootstrap
        self._ledger = ledger
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": CRITICAL})
        self._visits = 0

    def turn(self) -> None:
        self._visits += 1
        topic = f"passing-{self._visits}"
        settle(self._admin.create_topics([NewTopic(topic, 3, 1)]).values())
        producer = producer_of(self._bootstrap, codec="zstd", idempotent=True)
        offsets: dict[str, list[int]] = {topic: [], VISITS: []}

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._ledger.fault(f"visitor: not acked, {error}")
            else:
                offsets[message.topic() or ""].append(message.offset() or 0)

        for number in range(VISIT_RECORDS):
            for name in offsets:
                producer.produce(name, value_of(0, number), partition=0, on_delivery=delivered)
        producer.flush(PATIENCE_SECONDS)
        for name, acked in offsets.items():
            self._read_back(name, acked)
        settle(self._admin.delete_topics([topic]).values())
        self._ledger.count("topics made and deleted")

    def finish(self) -> None:
        pass

    def _read_back(self, topic: str, acked: list[int]) -> None:
        consumer = consumer_of(self._bootstrap)
        consumer.assign([TopicPartition(topic, 0, acked[0])])
        found = consumer.consume(VISIT_RECORDS, PATIENCE_SECONDS)
        self._ledger.expect(
            [(message.offset(), message.value()) for message in found]
            == [(offset, value_of(0, number)) for number, offset in enumerate(acked)],
            f"visitor: {topic} differs from what was acked",
        )
        consumer.close()


class Caller:
    """Connections that come and go, with a fetch session each; some hang up in mid-sentence."""

    pause_seconds = 0.25

    def __init__(self, address: tuple[str, int], ledger: Ledger, *, topic_id: bytes) -> None:
        self._address = address
        self._ledger = ledger
        self._topic_id = topic_id
        self._calls = 0

    def turn(self) -> None:
        self._calls += 1
        if self._calls % 8 == 0:
            with socket.create_connection(self._address, PATIENCE_SECONDS) as connection:
                connection.sendall(b"\x00\x00\x01\x00half of a frame")
        else:
            with Asking(self._address) as asking:
                self._fetch_in_session(asking)
        self._ledger.count("connections")

    def finish(self) -> None:
        pass

    def _fetch_in_session(self, asking: Asking) -> None:
        partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2000)]
        topic = FetchTopic(topic_id=self._topic_id, partitions=partitions)
        opening = FetchRequest(max_wait_ms=0, session_epoch=0, max_bytes=2000, topics=[topic])
        opened = asking.ask(opening, FetchResponse, FETCH_VERSION)
        self._ledger.expect(opened.error_code == 0, f"session: error {opened.error_code}")
        if opened.session_id:
            following = FetchRequest(max_wait_ms=0, session_id=opened.session_id, session_epoch=1)
            reply = asking.ask(following, FetchResponse, FETCH_VERSION)
            self._ledger.expect(reply.error_code == 0, f"session: error {reply.error_code}")
            self._ledger.count("fetch sessions")
            # Every other session is closed; the rest is left for the broker to forget.
            if self._calls % 2:
                closing = FetchRequest(session_id=opened.session_id, session_epoch=-1)
                asking.ask(closing, FetchResponse, FETCH_VERSION)
