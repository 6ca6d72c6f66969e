"""Who reads what, as the leader of a classic group decides it: two assignors, by Kafka's names.

`range` gives each member of a topic a run of its partitions, so that topics with as many
partitions are read side by side. `cooperative-sticky` spreads partitions evenly and moves as few
as it can; one that is to move is first taken from its owner, and given to its new one at the next
rebalance, which the owner asks for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.model.identity import TopicPartition

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
    shares: dict[str, list[TopicPartition]] = {member: [] for member in subscribers}
    # Static members keep their place in the order, whatever id they come with.
    in_order = sorted(subscribers, key=lambda m: (subscribers[m].instance_id or m, m))
    for topic in sorted(_topics(subscribers)):
        members = [member for member in in_order if topic in subscribers[member].topics]
        each, more = divmod(counts.get(topic, 0), len(members))
        start = 0
        for place, member in enumerate(members):
            end = start + each + (place < more)
            shares[member] += [TopicPartition(topic, index) for index in range(start, end)]
            start = end
    return {member: tuple(share) for member, share in shares.items()}


def cooperative_shares(subscribers: Mapping[str, Subscriber], counts: Mapping[str, int]) -> Shares:
    owners = valid_owners(subscribers, counts)
    shares = sticky_shares(subscribers, counts, owners)
    # Taken from its owner now; its new one gets it when the owner has let go.
    return {
        member: tuple(place for place in share if owners.get(place, member) == member)
        for member, share in shares.items()
    }


def sticky_shares(
    subscribers: Mapping[str, Subscriber],
    counts: Mapping[str, int],
    owners: Mapping[TopicPartition, str],
) -> Shares:
    """As even as the subscriptions allow; a partition stays with its owner where that is even."""
    shares: dict[str, set[TopicPartition]] = {member: set() for member in sorted(subscribers)}
    eligible = {
        topic: [m for m in shares if topic in subscribers[m].topics]
        for topic in sorted(_topics(subscribers))
    }
    places = [
        TopicPartition(topic, index) for topic in eligible for index in range(counts.get(topic, 0))
    ]
    # Owned ones first: who is given one of the others must not have to give up his own for it.
    for place in places:
        if place in owners:
            shares[owners[place]].add(place)
    for place in places:
        if place not in owners:
            shares[min(eligible[place.topic], key=lambda m: len(shares[m]))].add(place)
    while (move := _evening_move(shares, eligible, owners)) is not None:
        place, giver, taker = move
        shares[giver].remove(place)
        shares[taker].add(place)
    return {member: tuple(sorted(share)) for member, share in shares.items()}


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


def _evening_move(
    shares: Mapping[str, set[TopicPartition]],
    eligible: Mapping[str, list[str]],
    owners: Mapping[TopicPartition, str],
) -> tuple[TopicPartition, str, str] | None:
    """A partition whose move makes the shares more even, from the largest share that has one;
    rather one that nobody owns yet.
    """
    for giver in sorted(shares, key=lambda m: (-len(shares[m]), m)):
        for place in sorted(shares[giver], key=lambda place: (place in owners, place)):
            taker = min(eligible[place.topic], key=lambda m: len(shares[m]))
            if len(shares[taker]) + 1 < len(shares[giver]):
                return place, giver, taker
    return None


def _topics(subscribers: Mapping[str, Subscriber]) -> set[str]:
    return {topic for subscriber in subscribers.values() for topic in subscriber.topics}
