"""The group that stands for a query: it has no members, and its offsets are the query's progress.

Nobody joins it, so its coordinator takes commits of nobody. A group that has members has offsets of
its own, and is refused: at the start of a query where the group is told by an option.
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
    """What a user has chosen: by our option, or by the Kafka client's name for it."""
    return read.text("groupId") or read.text("kafka.group.id")


def default_group(read: Given, *, query: str) -> str:
    """Of a query by its name, which stays the same, or by its id where it has none."""
    return f"{read.text('groupIdPrefix') or PREFIX}-{query}"


def behind(progress: Iterable[Mapping[TopicPartition, Offset]]) -> dict[TopicPartition, Offset]:
    """What is behind all sources of a query: where several read a partition, the slowest counts."""
    slowest: dict[TopicPartition, Offset] = {}
    for offsets in progress:
        for partition, offset in offsets.items():
            slowest[partition] = min(offset, slowest.get(partition, offset))
    return slowest


async def refuse_active(connection: ConnectionOptions, group: str) -> None:
    """GroupInUse where someone else's consumers are members of it."""
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
    """All of it; Refused for the first partition that was not taken."""
    offsets = {place: Committed(offset=offset) for place, offset in progress.items()}
    async with connect(connection) as cluster:
        answers = await commit_offsets(Coordinators(cluster), group, offsets)
    for refusal in answers.values():
        if refusal is not None:
            raise refusal
