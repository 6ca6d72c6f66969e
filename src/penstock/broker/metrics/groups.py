"""The groups that this broker coordinates: states, members, committed offsets, and lag.

The lag is told where a replica of the partition is here, led or followed; a follower knows the end
as of its last fetch. Elsewhere the committed offset is to be compared with the end that
another node tells. Members and offsets of a group have its name as a label, so both are bounded.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from penstock.broker.metrics.lag_ages import LagAges
from penstock.broker.partitions.partitions import Partitions
from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.groups.consumer.group import ConsumerGroup, ConsumerState
from penstock.groups.group import CLASSIC, CONSUMER, member_count
from penstock.groups.shard import GroupShard
from penstock.metrics.family import Family, Sample, Source, Steps, gauge
from penstock.model.identity import TopicPartition
from penstock.model.limit import METRICS_LAGS_MAX
from penstock.model.offset import Offset
from penstock.world.ports import Clock

CLASSIC_PREFIX = "kafka_coordinator_group_groupmetadatamanager_"
PREFIX = "kafka_server_group_coordinator_metrics_"
PLACE = ("group", "topic", "partition")
GROUPS = gauge(f"{PREFIX}group_count", "Groups that this broker coordinates.", "protocol")
CONSUMER_GROUPS = gauge(
    f"{PREFIX}consumer_group_count",
    "Groups of the consumer protocol (KIP-848) that this broker coordinates, by state.",
    "state",
)
NUM_GROUPS = gauge(
    f"{CLASSIC_PREFIX}numgroups", "Groups of the classic protocol that this broker coordinates."
)
NUM_OFFSETS = gauge(
    f"{CLASSIC_PREFIX}numoffsets", "Committed offsets of the groups that this broker coordinates."
)
BY_STATE = {
    state: gauge(
        f"{CLASSIC_PREFIX}numgroups{state.value.lower()}",
        f"Those of the classic protocol that are {state.value}.",
    )
    for state in ClassicState
}
MEMBERS = gauge(
    "penstock_group_members", "Members of a group that this broker coordinates.", "group"
)
COMMITTED = gauge(
    "penstock_group_committed_offset", "The offset that a group has committed.", *PLACE
)
RECORDS = gauge(
    "penstock_group_lag_records",
    "Offsets from the committed one to the end of a partition that has a replica here.",
    *PLACE,
)
SECONDS = gauge(
    "penstock_group_lag_seconds",
    "The age of the first record that a group has not read, by its batch; 0 if it has read all.",
    *PLACE,
)
MISSED = gauge(
    "penstock_group_missed_records",
    "Offsets that were deleted before the group has read them; absent where there are none.",
    *PLACE,
)
ELSEWHERE = gauge(
    "penstock_group_lags_elsewhere",
    "Committed offsets whose lag is not told here, since the partition has no replica here.",
)
LEFT_OUT = gauge(
    "penstock_group_lags_left_out",
    "Committed offsets that are not told, since there are too many for one scrape.",
)
WITHOUT_AGE = gauge(
    "penstock_group_lags_without_age",
    "Lags in records that are told without their age: too many others were read in this scrape, or"
    " the age is not known.",
)
FAMILIES: tuple[Family, ...] = (
    GROUPS,
    CONSUMER_GROUPS,
    NUM_GROUPS,
    *BY_STATE.values(),
    NUM_OFFSETS,
    MEMBERS,
    COMMITTED,
    RECORDS,
    SECONDS,
    MISSED,
    ELSEWHERE,
    LEFT_OUT,
    WITHOUT_AGE,
)


class Groups(Protocol):
    @property
    def shards(self) -> Iterable[GroupShard]: ...


def group_metrics(groups: Groups, partitions: Partitions, clock: Clock) -> Source:
    ages = LagAges()

    def samples() -> Steps:
        shards = list(groups.shards)
        yield from _states(shards)
        yield NUM_OFFSETS.sample(sum(shard.offsets.count for shard in shards))
        yield from _Lags(partitions, ages, clock.now_ms()).samples(shards)

    return Source(FAMILIES, samples)


def _states(shards: Iterable[GroupShard]) -> Steps:
    classic: Counter[ClassicState] = Counter()
    consumer: Counter[ConsumerState] = Counter()
    told = 0
    for shard in shards:
        for group in list(shard.groups.values()):
            match group:
                case ClassicGroup():
                    classic[group.state] += 1
                case ConsumerGroup():
                    consumer[group.state] += 1
            told += 1
            yield (
                MEMBERS.sample(member_count(group), group.group_id)
                if told <= METRICS_LAGS_MAX
                else None
            )
    yield GROUPS.sample(classic.total(), CLASSIC)
    yield GROUPS.sample(consumer.total(), CONSUMER)
    yield NUM_GROUPS.sample(classic.total())
    for state, family in BY_STATE.items():
        yield family.sample(classic[state])
    for kind in ConsumerState:
        yield CONSUMER_GROUPS.sample(consumer[kind], kind.value)


class _Lags:
    """The committed offsets of one scrape, and how far they are behind."""

    def __init__(self, partitions: Partitions, ages: LagAges, now_ms: int) -> None:
        self._partitions = partitions
        self._ages = ages
        self._now_ms = now_ms
        self._told = 0
        self._elsewhere = 0
        self._left_out = 0

    def samples(self, shards: Iterable[GroupShard]) -> Steps:
        self._ages.begin_round()
        for shard in shards:
            for group in list(shard.offsets):
                for topic, offsets in list(shard.offsets.of_group(group).items()):
                    for index, value in list(offsets.items()):
                        if self._told >= METRICS_LAGS_MAX:
                            self._left_out += 1
                            yield None
                            continue
                        self._told += 1
                        yield from self._of(group, TopicPartition(topic, index), value.offset)
        self._ages.end_round()
        yield ELSEWHERE.sample(self._elsewhere)
        yield LEFT_OUT.sample(self._left_out)
        yield WITHOUT_AGE.sample(self._ages.without_age)

    def _of(self, group: str, name: TopicPartition, committed: int) -> Iterator[Sample]:
        place = (group, name.topic, str(name.partition))
        yield COMMITTED.sample(committed, *place)
        replica = self._partitions.replica(name)
        if replica is None:
            self._elsewhere += 1
            return
        found = self._ages.lag(group, replica, Offset(committed), now_ms=self._now_ms)
        yield RECORDS.sample(found.records, *place)
        if found.age_ms is not None:
            yield SECONDS.sample(found.age_ms / 1000, *place)
        if found.missed:
            yield MISSED.sample(found.missed, *place)
