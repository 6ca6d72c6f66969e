"""Consumer groups: who is in them, and which are further behind than they may be.

One question for each partition's first record within the allowed lag serves all groups. Only what a
group has not read from before that is read itself, for its age: most groups are not behind, and a
cluster may have hundreds.
"""

from collections.abc import Mapping

from penstock.client.admin.group_lag import PartitionLag, timestamps_at
from penstock.client.admin.groups import GroupDescription, GroupKind, describe_groups, list_groups
from penstock.client.admin.last_batches import LogRange
from penstock.client.consume.group_offsets import Committed, committed_offsets
from penstock.client.consume.offsets import list_offsets
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused
from penstock.client.network.routing import ClusterView
from penstock.doctor.questions import QUESTION_MS_MAX, Questions
from penstock.doctor.seen import GroupSeen, Seen, Unseen
from penstock.groups.lag import first_unread, lag
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset

GROUPS_MAX = 500
LATE_READ_MAX = 20  # partitions of a group whose oldest unread record is read

Logs = Mapping[TopicPartition, LogRange]
Recent = Mapping[TopicPartition, Offset]  # the first offset that is recent enough


async def groups_seen(
    ask: Questions, cluster: Cluster, logs: Seen[Logs], *, lag_ms_max: int
) -> Seen[tuple[GroupSeen, ...]]:
    listed = await ask.about("groups", list_groups(cluster))
    if isinstance(listed, Unseen):
        return listed
    wanted = [group.group_id for group in listed if group.kind is not GroupKind.SHARE]
    if not wanted:
        return ()
    if isinstance(logs, Unseen):
        return logs
    since_ms = max(0, cluster.clock.now_ms() - lag_ms_max)
    recent = await ask.about("recent offsets", _recent(cluster, logs, since_ms=since_ms))
    if isinstance(recent, Unseen):
        return recent
    coordinators = Coordinators(cluster)
    found = []
    for number, name in enumerate(wanted):
        beyond = Unseen(reason=f"only {GROUPS_MAX} groups are looked at, and not {name}")
        described = await ask.about(
            f"group {name}",
            _described(coordinators, name),
            beyond if number >= GROUPS_MAX else None,
        )
        if isinstance(described, Unseen):
            found.append(GroupSeen(group_id=name, state="", member_topics=(), lag=described))
            continue
        seen = await ask.about(f"lag of {name}", _lag(coordinators, name, logs, recent))
        lags, unread = (seen, ()) if isinstance(seen, Unseen) else seen
        found.append(
            GroupSeen(
                group_id=name,
                state=described.state,
                member_topics=tuple(member.subscribed for member in described.members),
                lag=lags,
                unread=unread,
            )
        )
    return tuple(found)


async def _recent(cluster: Cluster, logs: Logs, *, since_ms: int) -> dict[TopicPartition, Offset]:
    """Its end, where a log has no record that is so young."""
    places = [place for place, log in logs.items() if log.count]
    listed = await list_offsets(
        cluster, dict.fromkeys(places, since_ms), timeout_ms=QUESTION_MS_MAX // 3
    )
    return {
        place: logs[place].end_offset if one.offset is None else one.offset
        for place, one in listed.items()
        if not isinstance(one, Refused)
    }


async def _described(coordinators: Coordinators, name: str) -> GroupDescription:
    described = (await describe_groups(coordinators, [name]))[name]
    if isinstance(described, Refused):
        raise described
    return described


async def _lag(
    coordinators: Coordinators, name: str, logs: Logs, recent: Recent
) -> tuple[tuple[PartitionLag, ...], tuple[TopicPartition, ...]]:
    """The age of what is unread is None where it is within the allowed lag, where it is markers of
    transactions alone, and in the partitions of which it is not known, which come second.
    """
    committed: dict[TopicPartition, Committed] = {}
    for place, result in (await committed_offsets(coordinators, name)).items():
        if isinstance(result, Refused):
            raise result
        committed[place] = result
    cluster = coordinators.cluster
    late, unseen = late_and_unseen(committed, logs, recent, cluster.view)
    read = sorted(late, key=lambda place: late[place] - logs[place].end_offset)[:LATE_READ_MAX]
    since_ms = await timestamps_at(cluster, {place: late[place] for place in read})
    now_ms = cluster.clock.now_ms()
    lags = tuple(
        PartitionLag(
            partition=place,
            committed=committed[place],
            start_offset=None if log is None else log.start_offset,
            end_offset=None if log is None else log.end_offset,
            lag=None
            if log is None
            else lag(
                committed[place].offset,
                start_offset=log.start_offset,
                end_offset=log.end_offset,
                unread_since_ms=since_ms.get(place),
                now_ms=now_ms,
            ),
        )
        for place in sorted(committed)
        for log in (logs.get(place),)
    )
    return lags, tuple(sorted({*unseen, *(late.keys() - since_ms.keys())}))


def late_and_unseen(
    committed: Mapping[TopicPartition, Committed], logs: Logs, recent: Recent, view: ClusterView
) -> tuple[dict[TopicPartition, Offset], list[TopicPartition]]:
    """The first unread offset of partitions where it is older than it may be; and partitions of
    which nobody said so, such as those without a leader.
    """
    late: dict[TopicPartition, Offset] = {}
    unseen = []
    for place, one in committed.items():
        log = logs.get(place)
        if log is None:
            if view.partition(place) is not None:
                unseen.append(place)
            continue
        unread = first_unread(one.offset, start_offset=log.start_offset, end_offset=log.end_offset)
        if unread is None:
            continue
        if place not in recent:
            unseen.append(place)
        elif unread < recent[place]:
            late[place] = unread
    return late, unseen
