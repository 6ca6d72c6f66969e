"""Exactly once in kafka-python: what was read is committed with what was written.

    read ─▶ begin ─▶ write results ─▶ send the offsets ─▶ commit
                                                         ▲
                      a crash before this leaves nothing ┘
                      that a reader sees: whoever comes next does it again

The same loop as in `read_process_write.py`, which is for confluent-kafka and tells more about it.
Run it: `python examples/read_process_write_kafka_python.py`.
"""

from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from shop import Shop, opened, say, seen

ORDERS = 20
BATCH = 6
CRASH_IN = 2  # the transaction that does not live to its commit, counted from 1
POLL_MS = 1000

Batches = dict[TopicPartition, list[Any]]  # as `poll` gives them


class Crash(Exception):
    """The process is gone, between its writes and the commit."""


def main() -> None:
    with opened(__doc__) as shop:
        orders, invoices = shop.topic("orders", partitions=2), shop.topic("invoices", partitions=1)
        shop.send_orders(orders, range(ORDERS))
        try:
            bill(shop, orders, invoices, crash_in=CRASH_IN)
        except Crash:
            say("crashed: a transaction is left open, with invoices in it")
        bill(shop, orders, invoices, crash_in=None)
        wanted = sorted(f"invoice for order {number}" for number in range(ORDERS))
        assert sorted(seen(shop, invoices)) == wanted
        written = seen(shop, invoices, isolation_level="read_uncommitted")
        assert len(written) > ORDERS
        say(f"ok: {len(written)} invoices were written, {ORDERS} are seen, one for each order")


def bill(shop: Shop, orders: str, invoices: str, *, crash_in: int | None) -> None:
    """Until every order is billed. Its successor has the same transactional id."""
    producer = KafkaProducer(
        bootstrap_servers=shop.bootstrap, transactional_id=f"billing-{shop.mark}"
    )
    producer.init_transactions()  # ends what a predecessor has left open
    consumer = KafkaConsumer(
        orders,
        bootstrap_servers=shop.bootstrap,
        group_id=f"billing-{shop.mark}",
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=BATCH,
    )
    transactions = 0
    try:
        while billed(consumer, orders) < ORDERS:
            batches = consumer.poll(timeout_ms=POLL_MS)
            if batches:
                transactions += 1
                bill_batches(
                    producer, consumer, batches, invoices, crashes=transactions == crash_in
                )
    finally:
        consumer.close()
        producer.close(timeout=0)


def bill_batches(
    producer: KafkaProducer,
    consumer: KafkaConsumer,
    batches: Batches,
    invoices: str,
    *,
    crashes: bool,
) -> None:
    read_until = {
        place: OffsetAndMetadata(batch[-1].offset + 1, "", -1) for place, batch in batches.items()
    }
    producer.begin_transaction()
    try:
        for batch in batches.values():
            for order in batch:
                producer.send(invoices, b"invoice for " + order.value)
        producer.send_offsets_to_transaction(read_until, consumer.group_metadata())
        if crashes:
            producer.flush()
            raise Crash
        producer.commit_transaction()
    except KafkaError:
        # What was read is to be read again: who starts anew begins at what is committed.
        producer.abort_transaction()
        raise


def billed(consumer: KafkaConsumer, orders: str) -> int:
    """How many orders the group has committed, of both partitions."""
    return sum(consumer.committed(TopicPartition(orders, index)) or 0 for index in range(2))


if __name__ == "__main__":
    main()
