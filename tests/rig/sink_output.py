"""What a sink has written, as another one of our clients sees it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.client.admin.transaction_listing import OPEN_STATES, Wanted, list_transactions
from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster
from penstock.model.identity import TopicPartition
from penstock.transactions.state import DECIDED
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork

READ_SECONDS_MAX = 120
COMPLETE_SECONDS_MAX = 5
DECIDED_STATES = {state.word for state in DECIDED}


def cluster_at(bootstrap: str) -> Cluster:
    return Cluster(TcpNetwork(), RealClock(), parse_addresses(bootstrap))


def committed_records(bootstrap: str, topic: str) -> list[ConsumedRecord]:
    """All records of a topic that count, up to its end: what is still open holds this up."""
    return asyncio.run(_committed_records(bootstrap, topic))


def committed_values(bootstrap: str, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in committed_records(bootstrap, topic))


def open_transactional_ids(bootstrap: str) -> list[str]:
    return asyncio.run(_open_transactional_ids(bootstrap))


@contextmanager
def none_left_open(bootstrap: str) -> Iterator[None]:
    """What the block begins it also ends; others may have transactions on the same broker."""
    before = set(open_transactional_ids(bootstrap))
    yield
    assert set(open_transactional_ids(bootstrap)) <= before


async def _committed_records(bootstrap: str, topic: str) -> list[ConsumedRecord]:
    rules = ConsumerRules(
        fetch=FetchRules(isolation=Isolation.READ_COMMITTED), reset=Reset.EARLIEST
    )
    found: list[ConsumedRecord] = []
    async with asyncio.timeout(READ_SECONDS_MAX), cluster_at(bootstrap) as cluster:
        view = await cluster.need([topic])
        places = [TopicPartition(topic, one) for one in range(len(view.topics[topic].partitions))]
        ends = await offsets_of(cluster, places, When.LATEST)
        async with Consumer(cluster, rules=rules) as consumer:
            await consumer.assign(places)
            consumer.seek_to_beginning()
            for place in places:
                await consumer.position(place)
            while any(consumer.positions()[place] < ends[place] for place in places):
                found += await consumer.poll(wait_ms=100)
    return found


async def _open_transactional_ids(bootstrap: str) -> list[str]:
    """An end that is decided is acked before its coordinator has noted that it is complete: that is
    waited for, less long than any time-out of a transaction.
    """
    deadline = time.monotonic() + COMPLETE_SECONDS_MAX
    async with cluster_at(bootstrap) as cluster:
        while True:
            listed = await list_transactions(cluster, Wanted(states=OPEN_STATES))
            is_decided = any(one.state in DECIDED_STATES for one in listed)
            if not is_decided or time.monotonic() > deadline:
                return [one.transactional_id for one in listed]
            await asyncio.sleep(0.05)
