"""The consumer group of a query: it has no members, and its offsets are the query's progress.

The coordinator accepts commits without a member as long as the group has none. A group that has
members has its own offsets and is refused, at the start of the query if an option names it.
"""

from collections.abc import Iterable, Mapping

from penstock.client.admin.groups import describe_groups
from penstock.client.consume.group_offsets import Committed, commit_offsets
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused
from penstock.model.error import PenstockError
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.connection import connect
from penstock.spark.options import ConnectionOptions, Given

OPTIONS = ("groupId", "groupIdPrefix")
PREFIX = "spark"


class GroupInUse(PenstockError):
    """The group of a query has members."""


def chosen_group(read: Given) -> str | None:
    """The group that a user has named, by our option or by the Kafka client's name for it."""
    return read.text("groupId") or read.text("kafka.group.id")


def default_group(read: Given, *, query: str) -> str:
    """By the name of the query, which does not change, or by its id if it has no name."""
    return f"{read.text('groupIdPrefix') or PREFIX}-{query}"


def behind(progress: Iterable[Mapping[TopicPartition, Offset]]) -> dict[TopicPartition, Offset]:
    """What all sources of a query have read: of several for one partition, the lowest offset."""
    slowest: dict[TopicPartition, Offset] = {}
    for offsets in progress:
        for partition, offset in offsets.items():
            slowest[partition] = min(offset, slowest.get(partition, offset))
    return slowest


async def refuse_active(connection: ConnectionOptions, group: str) -> None:
    """GroupInUse if the group has members."""
    async with connect(connection) as cluster:
        found = (await describe_groups(Coordinators(cluster), [group]))[group]
    if not isinstance(found, Refused) and found.members:
        raise GroupInUse(
            f"option groupId is {group!r}, and this group has members ({len(found.members)}): a"
            " query needs a group of its own to commit its progress to"
        )


async def commit_progress(
    connection: ConnectionOptions, group: str, progress: Mapping[TopicPartition, Offset]
) -> None:
    """Commits all offsets; Refused for the first partition whose commit failed."""
    offsets = {place: Committed(offset=offset) for place, offset in progress.items()}
    async with connect(connection) as cluster:
        answers = await commit_offsets(Coordinators(cluster), group, offsets)
    for refusal in answers.values():
        if refusal is not None:
            raise refusal
