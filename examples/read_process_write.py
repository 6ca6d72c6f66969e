"""Exactly once, from topic to topic: what was read is committed with what was written.

    read ─▶ begin ─▶ write results ─▶ send the offsets ─▶ commit
                                                         ▲
                      a crash before this leaves nothing ┘
                      that a reader sees: whoever comes next does it again

Three rules make it whole: the consumer never commits by itself, `send_offsets_to_transaction` is
given its `consumer_group_metadata()` (so that one who has lost its partitions is refused), and
readers of the results ask for `read_committed`. Run it: `python examples/read_process_write.py`.
"""

from confluent_kafka import Consumer, KafkaException, Message, Producer

from shop import Shop, committed_total, good, opened, say, seen, text

ORDERS = 20
BATCH = 6
CRASH_IN = 2  # the transaction that does not live to its commit, counted from 1


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
    producer = Producer(
        {
            "bootstrap.servers": shop.bootstrap,
            "transactional.id": f"billing-{shop.mark}",
            # Without it a restart of the broker may stall librdkafka 2.10 and newer for ever.
            "metadata.recovery.strategy": "none",
        }
    )
    producer.init_transactions()  # ends what a predecessor has left open
    consumer = shop.consumer("billing", isolation_level="read_committed")
    consumer.subscribe([orders])
    transactions = 0
    try:
        while committed_total(consumer, orders, partitions=2) < ORDERS:
            batch = good(consumer.consume(BATCH, 0.5))
            if batch:
                transactions += 1
                bill_batch(producer, consumer, batch, invoices, crashes=transactions == crash_in)
    finally:
        consumer.close()


def bill_batch(
    producer: Producer, consumer: Consumer, batch: list[Message], invoices: str, *, crashes: bool
) -> None:
    producer.begin_transaction()
    try:
        for order in batch:
            producer.produce(invoices, f"invoice for {text(order)}")
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
        )
        if crashes:
            producer.flush()
            raise Crash
        producer.commit_transaction()
    except KafkaException as error:
        # What was read is to be read again: who starts anew begins at what is committed.
        if error.args[0].txn_requires_abort():
            producer.abort_transaction()
        raise


if __name__ == "__main__":
    main()
