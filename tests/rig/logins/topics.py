"""Topics of brokers that let nobody in without a log-in, made by our own client."""

import asyncio

import penstock.client
from penstock.client.admin.admin import NewTopic, first_refusal
from rig.logins.login import PATIENCE_SECONDS, Login


def create_topic(bootstrap: str, login: Login, name: str, *, partitions: int = 2) -> str:
    """The name, once the topic is there; on a cluster it has the replicas that brokers give it."""
    settings = {"bootstrap.servers": bootstrap, **login.java_settings()}

    async def work() -> None:
        async with penstock.client.connect(settings) as cluster:
            topic = NewTopic(name=name, partitions=partitions)
            first_refusal((await penstock.client.Admin(cluster).create_topics([topic])).values())

    asyncio.run(asyncio.wait_for(work(), PATIENCE_SECONDS))
    return name
