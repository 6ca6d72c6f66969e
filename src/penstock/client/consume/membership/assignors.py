"""Who reads what, as the leader of a classic group decides it: two assignors, by Kafka's names.

`range` gives each member of a topic a run of its partitions, so that topics with as many
partitions are read side by side. `cooperative-sticky` spreads partitions evenly and moves as few
as it can; one that is to move is first taken from its owner, and given to its new one at the next
rebalance, which the owner asks for.

How partitions are cut or spread is decided as a coordinator decides it (`groups/assignor`); topics
go by name among these members, and by a number for that long.
"""

from collections.abc import Mapping
from enum import Enum

from penstock.groups.assignor.range import assign_ranges
from penstock.groups.assignor.spec import Assignment, GroupSpec, MemberSpec, TopicIdPartition
from penstock.groups.assignor.uniform import assign_uniformly
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.lazy_dataclass import dataclass

TOPIC_ID_BYTES = 16

Shares = dict[str, tuple[TopicPartition, ...]]


class Assignor(Enum):
    RANGE = "range"
    COOPERATIVE_STICKY = "cooperative-sticky"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    topics: tuple[str, ...]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1  # of which `owned` is


def assign(
    assignor: Assignor, subscribers: Mapping[str, Subscriber], counts: Mapping[str, int]
) -> Shares:
    """The partitions of each member, by its id; `counts` are the partitions of each topic."""
    match assignor:
        case Assignor.RANGE:
            return range_shares(subscribers, counts)
        case Assignor.COOPERATIVE_STICKY:
            return cooperative_shares(subscribers, counts)


def range_shares(subscribers: Mapping[str, Subscriber], counts: Mapping[str, int]) -> Shares:
    names = _Numbers(counts)
    return names.shares(assign_ranges(names.spec(subscribers, {})))


def cooperative_shares(subscribers: Mapping[str, Subscriber], counts: Mapping[str, int]) -> Shares:
    owners = valid_owners(subscribers, counts)
    names = _Numbers(counts)
    shares = names.shares(assign_uniformly(names.spec(subscribers, owners)))
    # Taken from its owner now; its new one gets it when the owner has let go.
    return {
        member: tuple(place for place in share if owners.get(place, member) == member)
        for member, share in shares.items()
    }


def valid_owners(
    subscribers: Mapping[str, Subscriber], counts: Mapping[str, int]
) -> dict[TopicPartition, str]:
    """Who owns what, of partitions that exist and are still wanted by their owner.

    Of two who claim one partition, the one of the newer generation is right; of the same, neither.
    """
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member in sorted(subscribers):
        subscriber = subscribers[member]
        for place in subscriber.owned:
            if place.topic in subscriber.topics and place.partition < counts.get(place.topic, 0):
                claims.setdefault(place, []).append((subscriber.generation, member))
    owners = {}
    for place, claimed in claims.items():
        newest = max(generation for generation, _ in claimed)
        claimants = [member for generation, member in claimed if generation == newest]
        if len(claimants) == 1:
            owners[place] = claimants[0]
    return owners


class _Numbers:
    """Topics by number, in the order of their names, as ids that assignors sort and compare."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts
        self._ids = {
            name: TopicId(number.to_bytes(TOPIC_ID_BYTES))
            for number, name in enumerate(sorted(counts))
        }
        self._names = {topic_id: name for name, topic_id in self._ids.items()}

    def spec(
        self, subscribers: Mapping[str, Subscriber], owners: Mapping[TopicPartition, str]
    ) -> GroupSpec:
        owned: dict[str, list[TopicIdPartition]] = {member: [] for member in subscribers}
        for place, owner in owners.items():
            owned[owner].append(TopicIdPartition(self._ids[place.topic], place.partition))
        return GroupSpec(
            members=tuple(
                MemberSpec(
                    member_id=member,
                    instance_id=subscriber.instance_id,
                    topics=frozenset(
                        self._ids[topic] for topic in subscriber.topics if topic in self._ids
                    ),
                    owned=frozenset(owned[member]),
                )
                for member, subscriber in subscribers.items()
            ),
            partitions={self._ids[name]: count for name, count in self._counts.items()},
        )

    def shares(self, assignment: Assignment) -> Shares:
        return {
            member: tuple(
                TopicPartition(self._names[topic_id], partition)
                for topic_id, partition in sorted(share)
            )
            for member, share in assignment.items()
        }
