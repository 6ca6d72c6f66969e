"""At most once: commit first, then do the work.

    consume ─▶ commit ─▶ do the work
                          ▲
                          └ a crash here loses the order: nobody is given it again

For what must never happen twice and may be missed now and then, such as a push message. Run it:
`python examples/at_most_once.py`.
"""

from shop import Shop, opened, say, take, text

ORDERS = 20
CRASH_AT = "order 7"


class Crash(Exception):
    """The process is gone, in the middle of its work."""


def notify(shop: Shop, topic: str, told: list[str], *, until: int, crash_at: str | None) -> None:
    consumer = shop.consumer("notifications")
    consumer.subscribe([topic])
    try:
        while len(told) < until:
            [order] = take(consumer, 1)
            consumer.commit(asynchronous=False)
            if text(order) == crash_at:
                raise Crash(text(order))
            told.append(text(order))
    finally:
        consumer.close()


def main() -> None:
    with opened(__doc__) as shop:
        topic = shop.topic("orders", partitions=1)
        shop.send_orders(topic, range(ORDERS))
        told: list[str] = []
        try:
            notify(shop, topic, told, until=ORDERS, crash_at=CRASH_AT)
        except Crash as crash:
            say(f"{len(told)} told; crashed with {crash} in its hands")
        notify(shop, topic, told, until=ORDERS - 1, crash_at=None)
        assert len(told) == len(set(told))
        assert set(told) == {f"order {n}" for n in range(ORDERS)} - {CRASH_AT}
        say(f"ok: {len(told)} told once, {CRASH_AT} never")


if __name__ == "__main__":
    main()
