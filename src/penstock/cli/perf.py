"""`penstock perf`: how fast a cluster takes records, gives them, and passes them on.

Built on our own client, whose Python is part of what is measured: it tells whether a cluster is
healthy and near enough. What a broker itself costs is measured by `bench/`, with a load that costs
nothing. Start reading at the three commands; each runs one coroutine over a `Cluster`.
"""

import asyncio
import itertools
import struct
import sys
import time
from collections.abc import Awaitable, Callable

import click

from penstock.cli import status
from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import until_interrupted, with_cluster
from penstock.cli.options import cluster_options
from penstock.cli.perf_figures import Figures, LiveFigures
from penstock.cli.produce import ACKS, Unfinished, produced
from penstock.cli.show import print_json
from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import TimedOut
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Delivery, Producer, ProducerRules
from penstock.model.error import PenstockError
from penstock.model.identity import TopicPartition
from penstock.model.limit import KIB
from penstock.records.compression import Codec

STAMP = struct.Struct(">q")  # nanoseconds of this process's clock, at the start of a value
RECORDS_DEFAULT = 100_000
POLL_MS = 200
POLL_RECORDS = 5_000
QUIET_MS_MAX = 10_000  # nothing came for so long: what is missing will not come
LATE_S_MAX = 0.002  # a sender this far behind its rate does not pause

size_option = click.option(
    "--size",
    type=click.IntRange(min=STAMP.size),
    default=1000,
    show_default=True,
    metavar="BYTES",
    help="The size of each value.",
)
acks_option = click.option(
    "--acks",
    type=click.Choice(list(ACKS)),
    default="all",
    show_default=True,
    help="Whose ack a record waits for: all in-sync replicas, the leader, nobody.",
)


@click.group(cls=CommandGroup)
def perf() -> None:
    """Measure producing, consuming and latency, with live figures."""


@perf.command()
@click.argument("topic")
@click.option(
    "--records",
    "count",
    type=click.IntRange(min=1),
    help="Stop after so many.  [default: 100000, without --seconds]",
)
@click.option("--seconds", type=click.IntRange(min=1), help="Stop after so long.")
@size_option
@acks_option
@click.option(
    "--compression",
    type=click.Choice([codec.name.lower() for codec in Codec]),
    default="none",
    show_default=True,
    help="Of batches, by the producer.",
)
@click.option("--batch-bytes", type=click.IntRange(min=1), default=64 * KIB, show_default=True,
              help="The largest batch.")  # fmt: skip
@click.option("--linger-ms", type=click.IntRange(min=0), default=5, show_default=True,
              help="How long a batch waits for more records.")  # fmt: skip
@click.option("--rate", type=click.IntRange(min=1), help="Records a second; default: all it takes.")
@cluster_options
def produce(
    topic: str,
    count: int | None,
    seconds: int | None,
    size: int,
    acks: str,
    compression: str,
    batch_bytes: int,
    linger_ms: int,
    rate: int | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Write records to TOPIC; latency is from the send to the ack."""
    batches = BatchRules(
        idempotent=acks == "all",
        codec=Codec[compression.upper()],
        batch_bytes_max=batch_bytes,
        linger_ms=linger_ms,
    )
    rules = producer_rules(acks, batches)
    if count is None and seconds is None:
        count = RECORDS_DEFAULT

    last: Delivery | None = None

    async def send_all(producer: Producer, figures: Figures, live: LiveFigures) -> None:
        nonlocal last
        value = sample_value(size)
        pace = Pace(rate)
        until_s = None if seconds is None else time.perf_counter() + seconds
        for number in itertools.count():
            if number == count or (until_s is not None and time.perf_counter() >= until_s):
                break
            await pace.wait()
            last = await producer.send(topic, value)
            last.add_done_callback(acked(figures, size))
            live.show()

    async def work(cluster: Cluster) -> Figures:
        await cluster.need((topic,))
        figures = Figures()
        with LiveFigures(figures) as live:
            async with Producer(cluster, rules=rules) as producer:
                try:
                    figures.is_whole = await until_interrupted(send_all(producer, figures, live))
                    await count_all(producer)
                    if last is not None:
                        await last  # what broke the last record is told here
                except PenstockError as error:
                    # What was accepted is on its way all the same.
                    await count_all(producer)
                    raise Unfinished(f"{error} ({produced(figures.records, topic)})") from error
        figures.end()
        return figures

    run(bootstrap, work, as_json=as_json)


@perf.command()
@click.argument("topic")
@click.option(
    "--records", "count", type=click.IntRange(min=1), help="Default: all that are there at first."
)
@cluster_options
def consume(topic: str, count: int | None, bootstrap: str, as_json: bool) -> None:
    """Read TOPIC from its beginning, every record decoded."""

    async def work(cluster: Cluster) -> Figures:
        view = await cluster.need((topic,))
        partitions = [TopicPartition(topic, p) for p in range(len(view.topics[topic].partitions))]
        async with Consumer(cluster, rules=ConsumerRules(reset=Reset.EARLIEST)) as consumer:
            await consumer.assign(partitions)
            consumer.seek_to_beginning()
            ends = await consumer.end_offsets(partitions)
            figures = Figures()
            with LiveFigures(figures) as live:
                while count is None or figures.records < count:
                    positions = [await consumer.position(one) for one in partitions]
                    if count is None and all(map(int.__ge__, positions, ends.values())):
                        break
                    left = POLL_RECORDS if count is None else count - figures.records
                    await read_some(consumer, figures, records_max=min(left, POLL_RECORDS))
                    live.show()
            figures.end()
        return figures

    run(bootstrap, work, as_json=as_json)


@perf.command()
@click.argument("topic")
@click.option("--rate", type=click.IntRange(min=1), default=1000, show_default=True,
              help="Records a second.")  # fmt: skip
@click.option("--seconds", type=click.IntRange(min=1), default=10, show_default=True,
              help="Stop after so long.")  # fmt: skip
@size_option
@acks_option
@cluster_options
def latency(
    topic: str, rate: int, seconds: int, size: int, acks: str, bootstrap: str, as_json: bool
) -> None:
    """Write to TOPIC at a fixed rate and read back; latency is from the send to the receipt."""
    rules = producer_rules(acks, BatchRules(idempotent=acks == "all", linger_ms=0))

    async def work(cluster: Cluster) -> Figures:
        view = await cluster.need((topic,))
        partitions = [TopicPartition(topic, p) for p in range(len(view.topics[topic].partitions))]
        async with Consumer(cluster, rules=ConsumerRules(reset=Reset.LATEST)) as consumer:
            await consumer.assign(partitions)
            consumer.seek_to_end()
            for one in partitions:
                await consumer.position(one)
            figures = Figures()
            reading = cluster.tasks.start(
                receive(consumer, figures, count=rate * seconds, size=size), name="perf: receipt"
            )
            async with Producer(cluster, rules=rules) as producer:
                await send_stamped(producer, topic, count=rate * seconds, rate=rate, size=size)
            await reading
            figures.end()
        return figures

    run(bootstrap, work, as_json=as_json)


def run(bootstrap: str, work: Callable[[Cluster], Awaitable[Figures]], *, as_json: bool) -> None:
    figures = with_cluster(bootstrap, work)
    if as_json:
        print_json(figures.summary())
    else:
        click.echo(figures.line())
    if not figures.is_whole:
        sys.exit(status.INTERRUPTED)


def producer_rules(acks: str, batches: BatchRules) -> ProducerRules:
    return ProducerRules(acks=ACKS[acks], batches=batches)


def sample_value(size: int) -> bytes:
    """Bytes that compress about as well as text does."""
    words = b"the quick penstock leads the river onto the turbine, batch by batch; "
    return (words * (size // len(words) + 1))[:size]


def acked(figures: Figures, size: int) -> Callable[[Delivery], None]:
    """Counts a record when its delivery is settled, and not at all when it failed."""
    sent_s = time.perf_counter()

    def count(delivery: Delivery) -> None:
        if not delivery.cancelled() and delivery.exception() is None:
            figures.add(value_bytes=size, latency_ms=(time.perf_counter() - sent_s) * 1000)

    return count


async def count_all(producer: Producer) -> None:
    """Until all that was sent is settled, and `acked` has been told."""
    await producer.flush()
    await asyncio.sleep(0)  # a future calls back in the turn of the loop that follows


async def read_some(consumer: Consumer, figures: Figures, *, records_max: int) -> None:
    """One poll that brings records; TimedOut when they stay away for long."""
    deadline_s = time.perf_counter() + QUIET_MS_MAX / 1000
    while time.perf_counter() < deadline_s:
        records = await consumer.poll(wait_ms=POLL_MS, records_max=records_max)
        for record in records:
            figures.add(value_bytes=0 if record.value is None else len(record.value))
        if records:
            return
    raise TimedOut(f"no record came within {QUIET_MS_MAX} ms; {figures.records} had come before")


async def send_stamped(producer: Producer, topic: str, *, count: int, rate: int, size: int) -> None:
    padding = sample_value(size - STAMP.size)
    pace = Pace(rate)
    for _ in range(count):
        await pace.wait()
        delivery = await producer.send(topic, STAMP.pack(time.perf_counter_ns()) + padding)
        # One that fails is missed by its reader, who says so; nobody else asks for it.
        delivery.add_done_callback(lambda done: done.cancelled() or done.exception())


async def receive(consumer: Consumer, figures: Figures, *, count: int, size: int) -> None:
    """Reads `count` stamped records and notes how long each took; others may write to the topic
    too.
    """
    padding = sample_value(size - STAMP.size)
    heard_s = time.perf_counter()
    with LiveFigures(figures) as live:
        while figures.records < count:
            records = await consumer.poll(wait_ms=POLL_MS)
            now_ns = time.perf_counter_ns()
            stamped = [
                value
                for record in records
                if (value := record.value) is not None
                and len(value) == size
                and value[STAMP.size :] == padding
            ]
            for value in stamped:
                (sent_ns,) = STAMP.unpack_from(value)
                figures.add(value_bytes=size, latency_ms=(now_ns - sent_ns) / 1e6)
            if stamped:
                heard_s = time.perf_counter()
            elif time.perf_counter() - heard_s > QUIET_MS_MAX / 1000:
                raise TimedOut(f"{count - figures.records} of {count} records did not come back")
            live.show()


class Pace:
    """Lets a loop go round so many times a second; without a rate, as fast as it can."""

    def __init__(self, rate: int | None) -> None:
        self._interval_s = None if rate is None else 1 / rate
        self._due_s = time.perf_counter()

    async def wait(self) -> None:
        if self._interval_s is None:
            return
        early_s = self._due_s - time.perf_counter()
        self._due_s += self._interval_s
        if early_s > 0:
            await asyncio.sleep(early_s)
        elif early_s > -LATE_S_MAX:
            await asyncio.sleep(0)
