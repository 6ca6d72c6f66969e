"""Writes a generator's events with our own idempotent producer, at a rate where one is asked for.

Events are sent in portions, and a portion when the one before it is acked: so no partition runs
ahead of the others by more than that, whatever happens to the node on the way.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from penstock.cli.connect import with_cluster
from penstock.client.network.cluster import Cluster
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Producer, ProducerRules
from penstock.model.limit import KIB
from penstock.spark.pipelines.generated import Event

PORTION = 250
PORTIONS_PER_SECOND = 10  # at a rate, so that it looks even
RULES = ProducerRules(batches=BatchRules(linger_ms=5, batch_bytes_max=64 * KIB))

Progress = Callable[[int], None]  # how many more are written


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    topics: dict[str, int]
    seconds: float


def write_events(
    bootstrap: str,
    events: Iterator[Event],
    *,
    count: int,
    rate: float | None,
    progress: Progress = lambda _: None,
) -> Generated:
    async def work(cluster: Cluster) -> Generated:
        return await send_events(cluster, events, count=count, rate=rate, progress=progress)

    return with_cluster(bootstrap, work)


async def send_events(
    cluster: Cluster, events: Iterator[Event], *, count: int, rate: float | None, progress: Progress
) -> Generated:
    started_s = time.monotonic()
    topics: Counter[str] = Counter()
    portion = PORTION if rate is None else max(1, round(rate / PORTIONS_PER_SECOND))
    sent = 0
    async with Producer(cluster, rules=RULES) as producer:
        while sent < count:
            some = list(islice(events, min(portion, count - sent)))
            # A story may run ahead of the clock, but brokers refuse what is of the future.
            now_ms = time.time_ns() // 1_000_000
            deliveries = [
                await producer.send(
                    event.topic,
                    event.value,
                    key=event.key,
                    timestamp_ms=min(event.timestamp_ms, now_ms),
                )
                for event in some
            ]
            await asyncio.gather(*deliveries)
            topics.update(event.topic for event in some)
            sent += len(some)
            progress(len(some))
            if rate is not None:
                await asyncio.sleep(max(0.0, started_s + sent / rate - time.monotonic()))
    return Generated(topics=dict(sorted(topics.items())), seconds=time.monotonic() - started_s)
