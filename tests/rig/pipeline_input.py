"""What a pipeline finds before it starts: its topics, and events in them."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import groupby

from penstock.cli.pipeline_generate import write_events
from penstock.client.admin.admin import Admin
from penstock.client.admin.topology import read_topology
from penstock.client.admin.topology_apply import apply_topology
from penstock.spark.pipelines.catalogue import PIPELINES
from penstock.spark.pipelines.generated import Event
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message, Receipt
from rig.sink_output import cluster_at


def make_topics(bootstrap: str, pipeline: str) -> None:
    """As its topology file wants them, and empty whatever another test has left in them."""
    wanted = read_topology(PIPELINES[pipeline].topology)

    async def work() -> None:
        async with cluster_at(bootstrap) as cluster:
            await Admin(cluster).delete_topics(wanted)
            await apply_topology(cluster, wanted)

    asyncio.run(work())


def produce(bootstrap: str, events: Iterable[Event]) -> None:
    """As `penstock pipeline generate` does it."""
    some = list(events)
    write_events(bootstrap, iter(some), count=len(some), rate=None)


def send(client: ConfluentClient, events: Iterable[Event]) -> None:
    """In their order; all of them are there when this returns."""
    by_topic = sorted(events, key=lambda event: event.topic)
    for topic, sent in groupby(by_topic, key=lambda event: event.topic):
        receipts = client.produce(topic, messages_of(list(sent)))
        assert all(isinstance(receipt, Receipt) for receipt in receipts)


def messages_of(events: Sequence[Event]) -> list[Message]:
    return [
        Message(key=event.key, value=event.value, timestamp_ms=event.timestamp_ms)
        for event in events
    ]
