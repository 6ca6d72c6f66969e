"""A transactional producer in kafka-python: seen in several topics together, or not at all.

    begin ─▶ to "orders" ─▶ to "stock" ─▶ commit      both are seen
    begin ─▶ to "orders" ─▶ abort                     neither is

The same shop as in `transactional_producer.py`, which is for confluent-kafka. Run it:
`python examples/transactional_producer_kafka_python.py`.
"""

from kafka import KafkaProducer
from kafka.errors import ProducerFencedError

from shop import Shop, opened, say, seen

STOCK = 3
WISHES = {"order 1": 1, "order 2": 7, "order 3": 2}  # pieces of what is on the shelf


def main() -> None:
    with opened(__doc__) as shop:
        orders, stock = shop.topic("orders", partitions=1), shop.topic("stock", partitions=1)
        counter = started(shop)
        sell(counter, orders, stock)
        assert seen(shop, orders) == ["order 1", "order 3"]
        assert seen(shop, stock) == ["-1", "-2"]
        say("order 2 could not be had: its transaction was aborted, and no reader saw it")

        counter.begin_transaction()
        counter.send(orders, b"order 4").get()
        newer = started(shop)
        newer.begin_transaction()
        newer.send(orders, b"order 5")
        newer.commit_transaction()
        try:
            counter.commit_transaction()
        except ProducerFencedError:
            say("a newer instance has taken over: the older one is fenced")
        assert seen(shop, orders) == ["order 1", "order 3", "order 5"]
        counter.close(timeout=0)
        newer.close()
        say("ok: what was committed was seen, in both topics; what was not, never")


def started(shop: Shop) -> KafkaProducer:
    producer = KafkaProducer(
        bootstrap_servers=shop.bootstrap,
        transactional_id=f"counter-{shop.mark}",
        transaction_timeout_ms=10_000,
    )
    producer.init_transactions()
    return producer


def sell(producer: KafkaProducer, orders: str, stock: str) -> None:
    left = STOCK
    for order, pieces in WISHES.items():
        producer.begin_transaction()
        producer.send(orders, order.encode()).get()
        if pieces > left:
            producer.abort_transaction()
            continue
        producer.send(stock, f"-{pieces}".encode())
        left -= pieces
        producer.commit_transaction()


if __name__ == "__main__":
    main()
