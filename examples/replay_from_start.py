"""Replay: a service that joins late reads all that was ever said, from offset 0.

    day 1                                 day 30
    orders  0 ─────────────────────────── 300 ──▶
            "fulfilment" has read all of it ┘
            └ "recommendations" starts here, and catches up

Records stay when they are read. A new group has no offsets, so `auto.offset.reset=earliest` begins
at the start of the log; the groups that were there notice nothing. Run it:
`python examples/replay_from_start.py`.
"""

from shop import committed_total, opened, say, take

ORDERS = 300


def main() -> None:
    with opened(__doc__) as shop:
        topic = shop.topic("orders", partitions=3)
        shop.send_orders(topic, range(ORDERS))
        old = shop.consumer("fulfilment")
        old.subscribe([topic])
        take(old, ORDERS)
        old.commit(asynchronous=False)
        say(f"fulfilment has read {ORDERS} orders")

        late = shop.consumer("recommendations", auto_offset_reset="earliest")
        late.subscribe([topic])
        history = take(late, ORDERS)
        late.commit(asynchronous=False)
        late.close()
        beginnings = [message for message in history if message.offset() == 0]
        assert len(beginnings) == 3, "one in each partition"
        assert committed_total(old, topic, partitions=3) == ORDERS
        old.close()
        say(f"ok: a service that joined late read all {len(history)} orders, from offset 0 on")


if __name__ == "__main__":
    main()
