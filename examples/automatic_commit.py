"""Automatic commit: the client commits by itself, now and then, what it has handed out.

The least work, and enough where an order done twice, or one lost in a crash, does no harm: the
client commits what it has handed out, whether or not the work is done by then. Every
`auto.commit.interval.ms`, and once more at `close`. Run it: `python examples/automatic_commit.py`.
"""

from shop import committed_total, good, opened, say, take, text, wait_until

ORDERS = 100
AUTOMATIC = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}


def main() -> None:
    with opened(__doc__) as shop:
        topic = shop.topic("orders", partitions=1)
        shop.send_orders(topic, range(ORDERS))
        first = shop.consumer("analytics", **AUTOMATIC)
        first.subscribe([topic])
        take(first, ORDERS)

        def is_committed() -> bool:
            good(first.consume(1, 0.1))
            return committed_total(first, topic, partitions=1) == ORDERS

        wait_until(is_committed, "the client to commit by itself")
        say(f"{ORDERS} orders read; the client has committed them by itself")
        first.close()

        shop.send_orders(topic, range(ORDERS, ORDERS + 20))
        second = shop.consumer("analytics", **AUTOMATIC)
        second.subscribe([topic])
        fresh = [text(order) for order in take(second, 20)]
        second.close()
        assert fresh[0] == f"order {ORDERS}"
        say(f"ok: a consumer that came later went on with {fresh[0]}")


if __name__ == "__main__":
    main()
