"""Whether a node serves: a topic is created through it, written to and deleted again.

What is refused for now is tried again, as a user would; who calls sets the limit.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from penstock.client.admin.admin import Admin, NewTopic
from penstock.client.network.errors import ClientError, Refused
from penstock.client.produce.producer import Producer
from penstock.model.error import ErrorCode
from penstock.sim.cluster.clients import CLIENT_RULES, PRODUCER_RULES, ThroughOneNode
from penstock.sim.cluster.layout import address
from penstock.world.ports import World

PAUSE_S = 0.1
UNTRIED = ClientError("it has not been tried")


async def probe(world: World, host: str, *, topic: str, partitions: int, replicas: int) -> None:
    """Each partition is written to, wherever it is led."""
    bootstrap = [address(host)]
    rules = CLIENT_RULES
    async with ThroughOneNode(world.network, world.clock, bootstrap, rules=rules) as cluster:
        admin = Admin(cluster)
        new = NewTopic(name=topic, partitions=partitions, replicas=replicas)
        await _until_done(partial(_created, admin, new))
        async with Producer(cluster, rules=PRODUCER_RULES) as producer:
            for partition in range(partitions):
                await _until_done(partial(_written, producer, topic, partition))
        await _until_done(partial(_deleted, admin, topic))


async def _until_done(step: Callable[[], Awaitable[Refused | None]]) -> None:
    refused: ClientError | None = UNTRIED
    while refused is not None:
        try:
            refused = await step()
        except ClientError as error:
            refused = error
        if refused is not None:
            await asyncio.sleep(PAUSE_S)


async def _created(admin: Admin, new: NewTopic) -> Refused | None:
    told = (await admin.create_topics([new]))[new.name]
    if isinstance(told, Refused) and told.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        return told
    return None


async def _written(producer: Producer, topic: str, partition: int) -> None:
    await (await producer.send(topic, b"probe", partition=partition))


async def _deleted(admin: Admin, topic: str) -> Refused | None:
    told = (await admin.delete_topics([topic]))[topic]
    if told is not None and told.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return told
    return None
