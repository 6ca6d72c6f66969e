"""Where a group is to read on: one rule for each way to say it, and the plan that follows.

A new offset is always within the log: one below its start becomes the start, one beyond its end the
end, as Kafka's own tool has it. A plan tells old and new of each partition, and changes nothing;
`carry_out` commits it, which the coordinator takes only while the group has no members.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from penstock.client.admin.groups import GroupDescription, describe_groups
from penstock.client.consume.group_offsets import Committed, commit_offsets, committed_offsets
from penstock.client.consume.offsets import When, list_offsets, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset

PATIENCE_MS = 15_000  # a new leader is found sooner than that, where there is one to be found


class To(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"  # where it is, within the log; the end where nothing is committed


@dataclass(frozen=True, slots=True)
class ToOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class ToTime:
    """The first record that is at least as young; the end where there is none."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ToAgo:
    """The same, so long before now."""

    duration_ms: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    count: int


@dataclass(frozen=True, slots=True)
class ToEach:
    """An offset for each partition by itself."""

    offsets: Mapping[TopicPartition, int]


Aim = To | ToOffset | ToTime | ToAgo | ShiftBy | ToEach


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    start_offset: Offset
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    partition: TopicPartition
    old: Offset | None
    new: Offset


def new_offset(
    aim: Aim,
    partition: TopicPartition,
    *,
    current: Offset | None,
    bounds: LogBounds,
    at_time: Offset | None,
) -> Offset:
    """The offset that an aim comes to; `at_time` is what the log has at the time aimed at.

    Refused when the aim can't be reckoned: a shift from nowhere.
    """
    match aim:
        case To.EARLIEST:
            wanted: int = bounds.start_offset
        case To.LATEST:
            wanted = bounds.end_offset
        case To.CURRENT:
            wanted = bounds.end_offset if current is None else current
        case ToOffset(offset):
            wanted = offset
        case ToTime() | ToAgo():
            wanted = bounds.end_offset if at_time is None else at_time
        case ShiftBy(count):
            if current is None:
                raise Refused(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    str(partition),
                    "nothing is committed that could be shifted",
                )
            wanted = current + count
        case ToEach(offsets):
            wanted = offsets[partition]
    return Offset(min(max(wanted, bounds.start_offset), bounds.end_offset))


async def plan_reset(
    cluster: Cluster,
    coordinators: Coordinators,
    group: str,
    partitions: Sequence[TopicPartition],
    aim: Aim,
) -> list[Step]:
    """Old and new offset of each partition. Refused when the group has members, TimedOut when a
    partition has no leader for PATIENCE_MS.
    """
    await refuse_active(coordinators, group)
    current: dict[TopicPartition, Offset] = {}
    for place, result in (await committed_offsets(coordinators, group, partitions)).items():
        if isinstance(result, Refused):
            raise result
        current[place] = result.offset
    starts = await offsets_of(cluster, partitions, When.EARLIEST, timeout_ms=PATIENCE_MS)
    ends = await offsets_of(cluster, partitions, When.LATEST, timeout_ms=PATIENCE_MS)
    at_time = await _offsets_at(cluster, partitions, _time_ms(aim, cluster.clock.now_ms()))
    return [
        Step(
            partition=place,
            old=current.get(place),
            new=new_offset(
                aim,
                place,
                current=current.get(place),
                bounds=LogBounds(start_offset=starts[place], end_offset=ends[place]),
                at_time=at_time.get(place),
            ),
        )
        for place in partitions
    ]


async def carry_out(coordinators: Coordinators, group: str, steps: Sequence[Step]) -> None:
    """Commits the new offsets; raises the first refusal."""
    offsets = {step.partition: Committed(offset=step.new) for step in steps}
    for result in (await commit_offsets(coordinators, group, offsets)).values():
        if result is None:
            continue
        if result.code == ErrorCode.UNKNOWN_MEMBER_ID:
            await refuse_active(coordinators, group)
        raise result


def _time_ms(aim: Aim, now_ms: int) -> int | None:
    match aim:
        case ToTime(timestamp_ms):
            return timestamp_ms
        case ToAgo(duration_ms):
            return max(0, now_ms - duration_ms)
        case _:
            return None


async def _offsets_at(
    cluster: Cluster, partitions: Sequence[TopicPartition], timestamp_ms: int | None
) -> dict[TopicPartition, Offset | None]:
    offsets: dict[TopicPartition, Offset | None] = {}
    if timestamp_ms is None:
        return offsets
    listed = await list_offsets(
        cluster, dict.fromkeys(partitions, timestamp_ms), timeout_ms=PATIENCE_MS
    )
    for place, found in listed.items():
        if isinstance(found, Refused):
            raise found
        offsets[place] = found.offset
    return offsets


async def refuse_active(coordinators: Coordinators, group: str) -> None:
    """A group that does not exist yet is no trouble: offsets make it."""
    described = (await describe_groups(coordinators, (group,)))[group]
    if isinstance(described, GroupDescription) and described.members:
        count = len(described.members)
        raise Refused(
            ErrorCode.NON_EMPTY_GROUP,
            f"group {group}",
            f"it is active ({count} member{'s' * (count > 1)}): stop its consumers first",
        )
