"""The offsets that a group has committed: read, written and forgotten, at its coordinator.

Partitions are told by name. What concerns one partition is answered for it alone: a value, or
Refused in its place. A commit is a member's (`Committer`), or nobody's: the coordinator takes the
latter only while the group has no members, which is how offsets are reset.
"""

from collections.abc import Iterable, Mapping

from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused, error_code
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

NAMES_VERSION_MAX = 9  # of both OffsetCommit and OffsetFetch; beyond it topics are told by id


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    offset: Offset
    leader_epoch: LeaderEpoch | None = None
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Which member commits, as of which generation or member epoch."""

    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


NOBODY = Committer()

CommittedOffsets = dict[TopicPartition, Committed | Refused]


async def committed_offsets(
    coordinators: Coordinators,
    group: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    stable: bool = False,
    member: Committer = NOBODY,
) -> CommittedOffsets:
    """What is committed of these partitions, or of all; a partition without an offset is left out.

    With `stable`, a partition that a transaction is about to commit is refused until it is known.
    """
    wanted = None if partitions is None else _by_topic(partitions)
    request = OffsetFetchRequest(
        group_id=group,
        topics=None
        if wanted is None
        else [
            OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in wanted.items()
        ],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                member_id=member.member_id or None,
                member_epoch=member.epoch,
                topics=None
                if wanted is None
                else [
                    OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
                    for topic, indexes in wanted.items()
                ],
            )
        ],
        require_stable=stable,
    )
    reply = await coordinators.ask(
        group,
        request,
        OffsetFetchResponse,
        code_of=_fetch_code,
        version_max=NAMES_VERSION_MAX,
    )
    _raise_whole(group, _fetch_code(reply))
    found: CommittedOffsets = {}
    for topic in reply.groups[0].topics if reply.groups else reply.topics:
        for told in topic.partitions:
            place = TopicPartition(topic.name, told.partition_index)
            code = error_code(told.error_code)
            if code != ErrorCode.NONE:
                found[place] = Refused(code, str(place))
            elif told.committed_offset >= 0:
                epoch = told.committed_leader_epoch
                found[place] = Committed(
                    offset=Offset(told.committed_offset),
                    leader_epoch=None if epoch < 0 else LeaderEpoch(epoch),
                    metadata=told.metadata or "",
                )
    return found


async def commit_offsets(
    coordinators: Coordinators,
    group: str,
    offsets: Mapping[TopicPartition, Committed],
    *,
    member: Committer = NOBODY,
) -> dict[TopicPartition, Refused | None]:
    """The coordinator decides about all of them at once: usually all are taken, or none."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, index), committed in offsets.items():
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name))
        epoch = committed.leader_epoch
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=-1 if epoch is None else epoch,
                committed_metadata=committed.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=list(topics.values()),
    )
    reply = await coordinators.ask(
        group,
        request,
        OffsetCommitResponse,
        code_of=_commit_code,
        version_max=NAMES_VERSION_MAX,
    )
    return {
        (place := TopicPartition(topic.name, told.partition_index)): _refusal(
            told.error_code, str(place)
        )
        for topic in reply.topics
        for told in topic.partitions
    }


async def delete_offsets(
    coordinators: Coordinators, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Refused | None]:
    """Forgets what was committed; refused for topics that a member is subscribed to."""
    topics = [
        OffsetDeleteRequestTopic(
            name=name,
            partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
        )
        for name, indexes in _by_topic(partitions).items()
    ]
    reply = await coordinators.ask(
        group,
        OffsetDeleteRequest(group_id=group, topics=topics),
        OffsetDeleteResponse,
        code_of=lambda reply: reply.error_code,
    )
    _raise_whole(group, reply.error_code)
    return {
        (place := TopicPartition(topic.name, told.partition_index)): _refusal(
            told.error_code, str(place)
        )
        for topic in reply.topics
        for told in topic.partitions
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(index)
    return topics


def _fetch_code(reply: OffsetFetchResponse) -> int:
    return reply.groups[0].error_code if reply.groups else reply.error_code


def _commit_code(reply: OffsetCommitResponse) -> int:
    """Trouble with the group is told for each partition alike; the first one speaks for it."""
    for topic in reply.topics:
        for told in topic.partitions:
            return told.error_code
    return ErrorCode.NONE


def _raise_whole(group: str, code: int) -> None:
    refusal = _refusal(code, f"group {group}")
    if refusal is not None:
        raise refusal


def _refusal(code: int, about: str) -> Refused | None:
    found = error_code(code)
    return None if found == ErrorCode.NONE else Refused(found, about)
