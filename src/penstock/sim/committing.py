"""Clients that commit offsets, each for a group of its own: ever higher ones, as consumers do."""

import asyncio
from random import Random

from penstock.client.network.channel import Channel
from penstock.client.network.cluster import Lane
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import ClientError
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.sim.checker.commits import check_group
from penstock.sim.clients import CLUSTER_RULES, Laboratory, answered
from penstock.sim.kill_switch import KillSwitch
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

NAMES_VERSION = 9  # the last in which topics go by name
LOOKS = 0.2  # of all times, it reads back what it committed


async def commit_along(lab: Laboratory, name: str, kill_switch: KillSwitch, chance: Random) -> None:
    """Commits for some partitions, again and again, until the simulation ends."""
    places = [
        TopicPartition(topic.name, index)
        for topic in lab.scenario.topics
        for index in range(topic.partitions)
    ]
    async with lab.cluster(name, kill_switch) as cluster:
        coordinators = Coordinators(cluster)
        offset = 0
        while not lab.ending:
            offset += 1
            some = [place for place in places if chance.random() < 0.7] or places
            try:
                await answered(name, "commit", _commit(lab, name, coordinators, some, offset))
                if chance.random() < LOOKS:
                    await answered(name, "look", check_group(lab.history, name, coordinators))
            except ClientError as error:
                lab.trace.note(name, f"cannot commit or look at {offset}: {error}")
            await asyncio.sleep(chance.random() * 0.3)


async def _commit(
    lab: Laboratory,
    name: str,
    coordinators: Coordinators,
    places: list[TopicPartition],
    offset: int,
) -> None:
    """One attempt: a retry inside the client would hide that the first may still be under way."""
    channel = await coordinators.cluster.channel(await coordinators.of(name), Lane.QUESTIONS)
    for place in places:
        lab.history.commits_of(name, place).ask(offset, connection=channel)
    reply = await _ask(channel, name, places, offset)
    for topic in reply.topics:
        for told in topic.partitions:
            if told.error_code == ErrorCode.NONE:
                place = TopicPartition(topic.name, told.partition_index)
                lab.history.commits_of(name, place).ack(offset)
            else:
                coordinators.forget(name)
    codes = sorted({told.error_code for topic in reply.topics for told in topic.partitions})
    lab.trace.note(name, f"committed {offset} for {len(places)} partitions: {codes}")


async def _ask(
    channel: Channel, group: str, places: list[TopicPartition], offset: int
) -> OffsetCommitResponse:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for place in places:
        topic = topics.setdefault(place.topic, OffsetCommitRequestTopic(name=place.topic))
        topic.partitions.append(
            OffsetCommitRequestPartition(partition_index=place.partition, committed_offset=offset)
        )
    return await channel.ask(
        OffsetCommitRequest(group_id=group, topics=list(topics.values())),
        OffsetCommitResponse,
        timeout_ms=CLUSTER_RULES.request_ms_max,
        version=NAMES_VERSION,
    )
