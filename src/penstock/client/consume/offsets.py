"""Offsets by time: the beginning, the end, or the first record at or after a timestamp.

Leaders answer for their partitions, so a question goes out in one request for each; what a broker
does not lead any more is asked again after new metadata, until the deadline.
"""

import asyncio
from collections.abc import Iterable, Mapping
from enum import IntEnum

from penstock.client.consume.isolation import Isolation
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import (
    RETRIABLE,
    ClientError,
    ConnectionLost,
    Refused,
    TimedOut,
    error_code,
)
from penstock.client.network.routing import ClusterView
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

CONSUMER_REPLICA_ID = -1


class When(IntEnum):
    """Timestamps that are none: the places they stand for."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3  # the record with the highest timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    offset: Offset | None  # None: no record is as young as that
    timestamp_ms: int | None
    leader_epoch: LeaderEpoch | None


Listed = dict[TopicPartition, ListedOffset | Refused]


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    timeout_ms: int = 30_000,
) -> Listed:
    """For each partition the offset at a time (a `When`, or milliseconds), or the error it got."""
    deadline_ms = cluster.clock.monotonic_ms() + timeout_ms
    found: Listed = {}
    left = dict(wanted)
    await cluster.need(dict.fromkeys(partition.topic for partition in left))
    if any(_beyond(cluster.view, partition) for partition in left):
        await cluster.refresh()  # they may have been added since we looked
    while left:
        found.update(await _ask_leaders(cluster, left, isolation))
        left = {
            partition: when
            for partition, when in left.items()
            if _again(found, partition) and not _beyond(cluster.view, partition)
        }
        if not left or cluster.clock.monotonic_ms() >= deadline_ms:
            break
        await asyncio.sleep(cluster.rules.backoff_ms / 1000)
        await cluster.refresh(partition.topic for partition in left)
    for partition in left:
        if partition not in found:
            raise TimedOut(f"{partition}: no leader told its offsets within {timeout_ms} ms")
    return {partition: found[partition] for partition in wanted}


async def offsets_of(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    when: When,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    timeout_ms: int = 30_000,
) -> dict[TopicPartition, Offset]:
    """The same for one place of each partition; raises the first error there is."""
    listed = await list_offsets(
        cluster, dict.fromkeys(partitions, when), isolation=isolation, timeout_ms=timeout_ms
    )
    offsets = {}
    for partition, result in listed.items():
        if isinstance(result, Refused):
            raise result
        assert result.offset is not None
        offsets[partition] = result.offset
    return offsets


def _again(found: Listed, partition: TopicPartition) -> bool:
    result = found.get(partition)
    return result is None or (isinstance(result, Refused) and result.code in RETRIABLE)


async def _ask_leaders(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation: Isolation
) -> Listed:
    by_leader: dict[NodeId, dict[TopicPartition, int]] = {}
    found: Listed = {}
    for partition, when in wanted.items():
        if _beyond(cluster.view, partition):
            found[partition] = Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(partition), "there is no such partition"
            )
            continue
        leader = cluster.view.leader_of(partition)
        if leader is not None:
            by_leader.setdefault(leader, {})[partition] = when
    for leader, part in by_leader.items():
        try:
            found.update(await ask_leader(cluster, leader, part, isolation))
        except (ConnectionLost, TimedOut) as error:
            found.update(_unreached(part, error))
    return found


def _beyond(view: ClusterView, partition: TopicPartition) -> bool:
    topic = view.topics.get(partition.topic)
    return topic is not None and partition.partition >= len(topic.partitions)


def _unreached(partitions: Iterable[TopicPartition], error: ClientError) -> Listed:
    return {p: Refused(ErrorCode.NETWORK_EXCEPTION, str(p), str(error)) for p in partitions}


async def ask_leader(
    cluster: Cluster, leader: NodeId, wanted: Mapping[TopicPartition, int], isolation: Isolation
) -> Listed:
    """One question to one broker, and its answer as it is."""
    topics: dict[str, ListOffsetsTopic] = {}
    for partition, when in wanted.items():
        view = cluster.view.partition(partition)
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=-1 if view is None else view.leader_epoch,
                timestamp=when,
            )
        )
    request = ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=isolation,
        topics=list(topics.values()),
        timeout_ms=cluster.rules.request_ms_max,
    )
    reply = await cluster.ask(leader, request, ListOffsetsResponse)
    return {
        TopicPartition(topic.name, told.partition_index): _result(
            TopicPartition(topic.name, told.partition_index),
            error_code(told.error_code),
            ListedOffset(
                offset=None if told.offset < 0 else Offset(told.offset),
                timestamp_ms=None if told.timestamp < 0 else told.timestamp,
                leader_epoch=None if told.leader_epoch < 0 else LeaderEpoch(told.leader_epoch),
            ),
        )
        for topic in reply.topics
        for told in topic.partitions
    }


def _result(
    partition: TopicPartition, code: ErrorCode, listed: ListedOffset
) -> ListedOffset | Refused:
    return listed if code == ErrorCode.NONE else Refused(code, str(partition))
