"""Publish/subscribe mode: every group gets every order, at its own pace.

    orders ──┬──▶ group "fulfilment"      packs them
             ├──▶ group "analytics"       counts them
             └──▶ group "notifications"   tells the customers

Each group has its own committed offsets; none knows of the others, and one that is slow or stopped
holds nobody up. Run it: `python examples/publish_subscribe.py`.
"""

from shop import opened, say, take, text

ORDERS = 200
SERVICES = ("fulfilment", "analytics", "notifications")


def main() -> None:
    with opened(__doc__) as shop:
        topic = shop.topic("orders", partitions=2)
        shop.send_orders(topic, range(ORDERS))
        expected = {f"order {number}" for number in range(ORDERS)}
        for service in SERVICES:
            consumer = shop.consumer(service)
            consumer.subscribe([topic])
            got = {text(order) for order in take(consumer, ORDERS)}
            consumer.commit(asynchronous=False)
            consumer.close()
            assert got == expected
            say(f"{service} got all {len(got)} orders")
        say(f"ok: {len(SERVICES)} services, each got every order")


if __name__ == "__main__":
    main()
