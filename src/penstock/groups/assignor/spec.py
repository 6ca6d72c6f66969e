"""What an assignor is given and what it returns.

An assignment by any assignor is
1. complete: every partition that someone subscribes to has an owner;
2. disjoint: it has one owner;
3. in line with subscriptions: the owner subscribes to its topic;
4. a function of the spec alone: it does not depend on the order of a set.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.model.identity import TopicId
from penstock.model.lazy_dataclass import dataclass


class TopicIdPartition(NamedTuple):
    """One partition of one topic, by the topic's id; sorts by topic, then by number."""

    topic_id: TopicId
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """One member: what it subscribes to, and what the assignment before this one gave it."""

    member_id: str
    instance_id: str | None
    topics: frozenset[TopicId]
    owned: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A group that is to be assigned. `partitions` has the topics that exist, with their counts;
    no partition is owned twice.
    """

    members: tuple[MemberSpec, ...]
    partitions: Mapping[TopicId, int]


Assignment = dict[str, frozenset[TopicIdPartition]]  # by member id; every member has an entry
Assignor = Callable[[GroupSpec], Assignment]


def check(spec: GroupSpec, assignment: Assignment) -> None:
    """Promises 1 to 3."""
    wanted = {
        TopicIdPartition(topic_id, partition)
        for member in spec.members
        for topic_id in member.topics
        for partition in range(spec.partitions.get(topic_id, 0))
    }
    given = [partition for member in spec.members for partition in assignment[member.member_id]]
    assert len(assignment) == len(spec.members)
    assert set(given) == wanted  # 1
    assert len(given) == len(wanted)  # 2
    for member in spec.members:
        for partition in assignment[member.member_id]:
            assert partition.topic_id in member.topics, (member, partition)  # 3
