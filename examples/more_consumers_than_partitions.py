"""More consumers than partitions: one has nothing to do, until another leaves.

    orders     p0      p1
                │       │
                ▼       ▼
             worker  worker   (idle)      the third is a spare: it takes over when one goes

A group never has more working members than its topics have partitions, so the number of partitions
is what bounds how far it can be spread. Run it:
`python examples/more_consumers_than_partitions.py`.
"""

from confluent_kafka import Consumer

from shop import good, opened, say, wait_until

PARTITIONS = 2
WORKERS = 3


def main() -> None:
    with opened(__doc__) as shop:
        topic = shop.topic("orders", partitions=PARTITIONS)
        workers = [shop.consumer("fulfilment") for _ in range(WORKERS)]
        for worker in workers:
            worker.subscribe([topic])

        def shares(members: list[Consumer]) -> list[int]:
            for member in members:
                good(member.consume(1, 0.1))
            return [len(member.assignment()) for member in members]

        wait_until(lambda: sorted(shares(workers)) == [0, 1, 1], "two to work and one to idle")
        say("three consumers, two partitions: one is idle")

        busy = next(worker for worker in workers if worker.assignment())
        [spare] = [worker for worker in workers if not worker.assignment()]
        busy.close()
        workers.remove(busy)
        wait_until(lambda: shares(workers) == [1, 1], "the spare one to take over")
        assert spare.assignment()
        say("one has left: the idle one has taken its partition over")
        for worker in workers:
            worker.close()
        say("ok: one consumer was idle, and took over when another left")


if __name__ == "__main__":
    main()
