"""Reset to a time: a group reads again what came since then, say since a bug was let out.

    orders  0 ──────────── 60 ─────────── 100
                            ▲              ▲
                 the bug ───┘              └─── where the group had got to

The group is stopped, its offsets are set to the first record from that time on, and it reads on
from there. The same from a shell, shown first and done with --execute:

    penstock groups reset-offsets billing --topic orders --to-datetime 2026-01-31T12:00:00

Run it: `python examples/reset_to_time.py`.
"""

import time

from confluent_kafka import Producer, TopicPartition

from shop import PATIENCE_SECONDS, opened, say, take, text

BEFORE, AFTER = 60, 40
BUG_MS = int(time.time() * 1000) - 3_600_000  # an hour ago


def main() -> None:
    with opened(__doc__) as shop:
        topic = shop.topic("orders", partitions=1)
        producer = Producer({"bootstrap.servers": shop.bootstrap})
        for number in range(BEFORE + AFTER):
            # One a second, the bug in the middle.
            moment_ms = BUG_MS + (number - BEFORE) * 1_000
            producer.produce(topic, f"order {number}", timestamp=moment_ms)
        producer.flush()
        consumer = shop.consumer("billing")
        consumer.subscribe([topic])
        take(consumer, BEFORE + AFTER)
        consumer.commit(asynchronous=False)
        consumer.close()
        say(f"billing has read {BEFORE + AFTER} orders; the last {AFTER} came after the bug")

        # Members would be in the way: a group is reset while it has none.
        setter = shop.consumer("billing")
        found = setter.offsets_for_times([TopicPartition(topic, 0, BUG_MS)], PATIENCE_SECONDS)
        setter.commit(offsets=found, asynchronous=False)
        setter.close()
        say(f"billing is set to offset {found[0].offset}, the first since the bug")

        again = shop.consumer("billing")
        again.subscribe([topic])
        orders = take(again, AFTER)
        again.commit(asynchronous=False)
        again.close()
        assert text(orders[0]) == f"order {BEFORE}"
        say(f"ok: {len(orders)} orders were read again, from {text(orders[0])} on")


if __name__ == "__main__":
    main()
