"""Queue mode: the members of one group share the work, and each order is done once.

    orders (4 partitions)   p0  p1  p2  p3
                             │   │   │   │        one group: "fulfilment"
                             ▼   ▼   ▼   ▼
                            worker 1 │  worker 3
                                 worker 2

A partition belongs to one member at a time, so the orders of one customer, who is the key and hence
has one partition, stay in order. Run it: `python examples/queue_mode.py`.
"""

from collections import Counter

from shop import good, opened, say, text, wait_until

ORDERS = 600
WORKERS = 3
PARTITIONS = 4


def main() -> None:
    with opened(__doc__) as shop:
        topic = shop.topic("orders", partitions=PARTITIONS)
        workers = [shop.consumer("fulfilment", client_id=f"worker {n + 1}") for n in range(WORKERS)]
        for worker in workers:
            worker.subscribe([topic])

        def all_have_work() -> bool:
            for worker in workers:
                good(worker.consume(1, 0.1))
            return all(worker.assignment() for worker in workers)

        wait_until(all_have_work, "every worker to have partitions")
        shop.send_orders(topic, range(ORDERS))

        done: Counter[str] = Counter()
        by_worker: Counter[int] = Counter()

        def all_done() -> bool:
            for number, worker in enumerate(workers, start=1):
                for order in good(worker.consume(100, 0.05)):
                    done[text(order)] += 1
                    by_worker[number] += 1
            return len(done) == ORDERS

        wait_until(all_done, "all orders to be done")
        for number in sorted(by_worker):
            say(f"worker {number} did {by_worker[number]} orders")
        for worker in workers:
            worker.close()
        assert all(count == 1 for count in done.values())
        say(f"ok: {ORDERS} orders, each done once, by {len(by_worker)} workers")


if __name__ == "__main__":
    main()
