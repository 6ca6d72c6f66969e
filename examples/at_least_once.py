"""At least once: do the work first, then commit.

    consume ─▶ do the work ─▶ commit
                             ▲
                             └ a crash here has the order done again, by whoever comes next

For what must not be missed. Work that can be repeated without harm makes it exactly once in effect:
here the books have one line for each order, however often it is written. Run it:
`python examples/at_least_once.py`.
"""

from collections import Counter

from shop import Shop, opened, say, take, text

ORDERS = 20
CRASH_AT = "order 7"


class Crash(Exception):
    """The process is gone, between its work and the commit."""


def book(shop: Shop, topic: str, written: Counter[str], *, crash_at: str | None) -> None:
    consumer = shop.consumer("billing")
    consumer.subscribe([topic])
    try:
        while len(written) < ORDERS:
            [order] = take(consumer, 1)
            written[text(order)] += 1
            if text(order) == crash_at:
                raise Crash(text(order))
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def main() -> None:
    with opened(__doc__) as shop:
        topic = shop.topic("orders", partitions=1)
        shop.send_orders(topic, range(ORDERS))
        written: Counter[str] = Counter()
        try:
            book(shop, topic, written, crash_at=CRASH_AT)
        except Crash as crash:
            say(f"{len(written)} written; crashed after {crash}, before its commit")
        book(shop, topic, written, crash_at=None)
        assert set(written) == {f"order {number}" for number in range(ORDERS)}
        assert [order for order, times in written.items() if times > 1] == [CRASH_AT]
        say(f"ok: none missed; {CRASH_AT} was written twice, and is one line in the books")


if __name__ == "__main__":
    main()
