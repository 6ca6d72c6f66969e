"""The `range` assignor: every topic is divided into consecutive ranges, one for each subscriber.

The order of members is the same for all topics, static members first. So partition n of two topics
with equally many partitions and the same subscribers has the same owner, and the topics can be
joined.
"""

from penstock.groups.assignor.spec import Assignment, GroupSpec, MemberSpec, TopicIdPartition


def assign_ranges(spec: GroupSpec) -> Assignment:
    members = sorted(spec.members, key=_place)
    shares: dict[str, list[TopicIdPartition]] = {member.member_id: [] for member in members}
    for topic_id in sorted(spec.partitions):
        subscribers = [member for member in members if topic_id in member.topics]
        if not subscribers:
            continue
        each, longer = divmod(spec.partitions[topic_id], len(subscribers))
        start = 0
        for position, member in enumerate(subscribers):
            end = start + each + (1 if position < longer else 0)
            shares[member.member_id] += [
                TopicIdPartition(topic_id, partition) for partition in range(start, end)
            ]
            start = end
        assert start == spec.partitions[topic_id]
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _place(member: MemberSpec) -> tuple[bool, str, str]:
    """A static member keeps its place when it comes back under another member id."""
    return (member.instance_id is None, member.instance_id or "", member.member_id)
