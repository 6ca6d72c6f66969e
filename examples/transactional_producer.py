"""A transactional producer: records in several topics are seen together, or not at all.

    begin ─▶ to "orders" ─▶ to "stock" ─▶ commit      both are seen
    begin ─▶ to "orders" ─▶ abort                     neither is
                                 ▲
                                 └ so does the broker, when the program does not come back in time

Readers ask for it with `isolation.level=read_committed`. Whoever starts with the same
`transactional.id` is the one from then on: the older instance is fenced, and what it had not
committed is aborted. Run it: `python examples/transactional_producer.py`.
"""

from confluent_kafka import KafkaError, KafkaException, Producer

from shop import Shop, opened, say, seen

STOCK = 3
WISHES = {"order 1": 1, "order 2": 7, "order 3": 2}  # pieces of what is on the shelf


def main() -> None:
    with opened(__doc__) as shop:
        orders, stock = shop.topic("orders", partitions=1), shop.topic("stock", partitions=1)
        counter = started(shop)
        sell(counter, orders, stock)
        everything = seen(shop, orders, isolation_level="read_uncommitted")
        assert everything == ["order 1", "order 2", "order 3"]
        assert seen(shop, orders) == ["order 1", "order 3"]
        assert seen(shop, stock) == ["-1", "-2"]
        say("order 2 could not be had: its transaction was aborted, and no reader saw it")

        counter.begin_transaction()
        counter.produce(orders, "order 4")
        counter.flush()
        newer = started(shop)
        newer.begin_transaction()
        newer.produce(orders, "order 5")
        newer.commit_transaction()
        try:
            counter.commit_transaction()
        except KafkaException as refused:
            assert refused.args[0].code() == KafkaError._FENCED
            say("a newer instance has taken over: the older one is fenced")
        assert seen(shop, orders) == ["order 1", "order 3", "order 5"]
        say("ok: what was committed was seen, in both topics; what was not, never")


def started(shop: Shop) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": shop.bootstrap,
            "transactional.id": f"counter-{shop.mark}",
            "transaction.timeout.ms": 10_000,
        }
    )
    producer.init_transactions()
    return producer


def sell(producer: Producer, orders: str, stock: str) -> None:
    left = STOCK
    for order, pieces in WISHES.items():
        producer.begin_transaction()
        producer.produce(orders, order)
        producer.flush()
        if pieces > left:
            producer.abort_transaction()
            continue
        producer.produce(stock, f"-{pieces}")
        left -= pieces
        producer.commit_transaction()


if __name__ == "__main__":
    main()
