"""The `uniform` assignor: members get equally many partitions, and keep those they have.

Where all members subscribe to the same topics, their counts differ by one at most, and no more
partitions move than that takes. Where subscriptions differ, no single move of a partition to
another subscriber makes the counts more even; partitions move only when a move does.
"""

from heapq import heapify, heapreplace

from penstock.groups.assignor.spec import Assignment, GroupSpec, MemberSpec, TopicIdPartition
from penstock.model.identity import TopicId


def assign_uniformly(spec: GroupSpec) -> Assignment:
    if not spec.members:
        return {}
    members = sorted(spec.members, key=lambda member: member.member_id)
    kept = {member.member_id: _still_valid(member, spec) for member in members}
    if all(member.topics == members[0].topics for member in members):
        shares = _share_evenly(members[0].topics, spec, kept)
    else:
        shares = _share_by_subscription(members, spec, kept)
    return {member_id: frozenset(share) for member_id, share in shares.items()}


Shares = dict[str, list[TopicIdPartition]]  # by member id, in the order of member ids


def _still_valid(member: MemberSpec, spec: GroupSpec) -> list[TopicIdPartition]:
    """What the member had and may keep, in order."""
    return sorted(
        partition
        for partition in member.owned
        if partition.topic_id in member.topics
        and partition.partition < spec.partitions.get(partition.topic_id, 0)
    )


def _share_evenly(topics: frozenset[TopicId], spec: GroupSpec, kept: Shares) -> Shares:
    """All subscribe to the same topics: everyone has `quota`, and `extra` members one more."""
    every = [
        TopicIdPartition(topic_id, partition)
        for topic_id in sorted(topics)
        for partition in range(spec.partitions.get(topic_id, 0))
    ]
    quota, extra = divmod(len(every), len(kept))
    room: dict[str, int] = {}
    for member_id, share in kept.items():
        # Those that have more than the quota already are the ones that may keep one more.
        keeps_extra = extra > 0 and len(share) > quota
        extra -= keeps_extra
        del share[quota + keeps_extra :]
        room[member_id] = quota + keeps_extra - len(share)
    for member_id, share in kept.items():
        if extra and len(share) <= quota:
            room[member_id] += 1
            extra -= 1
    taken = {partition for share in kept.values() for partition in share}
    takers = [member_id for member_id in kept if room[member_id]]
    turn = 0
    for partition in every:
        if partition in taken:
            continue
        turn %= len(takers)
        member_id = takers[turn]
        kept[member_id].append(partition)
        room[member_id] -= 1
        if room[member_id]:
            turn += 1
        else:
            takers.pop(turn)
    return kept


def _share_by_subscription(members: list[MemberSpec], spec: GroupSpec, kept: Shares) -> Shares:
    """Topics with few subscribers first: where there is a choice, it comes last."""
    subscribers = {
        topic_id: [member.member_id for member in members if topic_id in member.topics]
        for topic_id in sorted(spec.partitions)
    }
    topics = sorted(
        (topic_id for topic_id, ids in subscribers.items() if ids),
        key=lambda topic_id: (len(subscribers[topic_id]), topic_id),
    )
    taken = {partition for share in kept.values() for partition in share}
    for topic_id in topics:
        lightest = [(len(kept[member_id]), member_id) for member_id in subscribers[topic_id]]
        heapify(lightest)
        for number in range(spec.partitions[topic_id]):
            partition = TopicIdPartition(topic_id, number)
            if partition not in taken:
                count, member_id = lightest[0]
                kept[member_id].append(partition)
                heapreplace(lightest, (count + 1, member_id))
    _even_out(topics, subscribers, kept)
    return kept


def _even_out(topics: list[TopicId], subscribers: dict[TopicId, list[str]], shares: Shares) -> None:
    """Moves partitions from the heaviest owner of a topic to its lightest subscriber while that
    narrows the gap. Every move lowers the sum of the squared counts, so it ends.
    """
    by_topic: dict[TopicId, Shares] = {topic_id: {} for topic_id in topics}
    for member_id, share in shares.items():
        for partition in sorted(share):
            by_topic[partition.topic_id].setdefault(member_id, []).append(partition)
    counts = {member_id: len(share) for member_id, share in shares.items()}
    moved = True
    while moved:
        moved = False
        for topic_id in topics:
            owners = by_topic[topic_id]
            while owners:
                heavy = max(owners, key=lambda member_id: (counts[member_id], member_id))
                light = min(
                    subscribers[topic_id], key=lambda member_id: (counts[member_id], member_id)
                )
                if counts[heavy] - counts[light] < 2:
                    break
                owners.setdefault(light, []).append(owners[heavy].pop())
                if not owners[heavy]:
                    del owners[heavy]
                counts[heavy] -= 1
                counts[light] += 1
                moved = True
    for member_id, share in shares.items():
        share[:] = [p for owners in by_topic.values() for p in owners.get(member_id, ())]
