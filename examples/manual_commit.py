"""Manual commit: the program says when its work is done, here after each batch.

    consume 25 ─▶ do the work ─▶ commit ─▶ consume 25 ─▶ do the work ─▶ (stopped before the commit)

Whoever comes next begins after the last commit, so the last batch is done again and none is
skipped. Run it: `python examples/manual_commit.py`.
"""

from shop import committed_total, opened, say, take, text

ORDERS = 100
BATCH = 25


def main() -> None:
    with opened(__doc__) as shop:
        topic = shop.topic("orders", partitions=1)
        shop.send_orders(topic, range(ORDERS))
        first = shop.consumer("fulfilment")
        first.subscribe([topic])
        for _ in range(2):
            batch = take(first, BATCH)
            first.commit(asynchronous=False)
            say(f"done and committed: {text(batch[0])} to {text(batch[-1])}")
        batch = take(first, BATCH)
        say(f"done, and stopped before the commit: {text(batch[0])} to {text(batch[-1])}")
        first.close()

        second = shop.consumer("fulfilment")
        second.subscribe([topic])
        batch = take(second, BATCH)
        second.commit(asynchronous=False)
        committed = committed_total(second, topic, partitions=1)
        second.close()
        assert text(batch[0]) == f"order {2 * BATCH}"
        assert committed == 3 * BATCH
        say(f"ok: the next consumer went on with {text(batch[0])}, after the last commit")


if __name__ == "__main__":
    main()
