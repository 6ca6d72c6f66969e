"""One who reads what is committed, all along: never a record of a transaction that may be none."""

from random import Random

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.isolation import Isolation
from penstock.model.identity import TopicPartition
from penstock.sim.clients import CLUSTER_RULES, Laboratory, begin_at_start, read_on
from penstock.sim.kill_switch import KillSwitch


async def watch(lab: Laboratory, name: str, kill_switch: KillSwitch, chance: Random) -> None:
    assert lab.scenario.transactions is not None
    rules = ConsumerRules(
        reset=Reset.EARLIEST,
        request_ms_max=CLUSTER_RULES.request_ms_max,
        fetch=FetchRules(
            partition_bytes_max=chance.choice((200, 2_000, 1 << 20)),
            isolation=Isolation.READ_COMMITTED,
        ),
    )
    async with (
        lab.cluster(name, kill_switch) as cluster,
        Consumer(cluster, rules=rules) as consumer,
    ):
        await begin_at_start(lab, name, consumer, list(lab.scenario.transactions.places))
        async for record in read_on(lab, name, consumer):
            place = TopicPartition(record.topic, record.partition)
            lab.history.transactions.see(lab.history.see(record).name, place, record.offset)
