"""A storm of rebalances: members come, leave and are killed at random while records are written.

Start at `rage`. The order of what happens is the seed's; how it falls together with the clients'
own doings is not. What has to hold:

1. All the time: what is committed never goes back, and never passes a record that nobody read.
2. At the end: the members that are left own every partition, none of them twice.
3. After it: every record that was acked has been read.
"""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from rig.clients.confluent import QUIET, ConfluentClient
from rig.members.kinds import Kind
from rig.members.member import GroupMember, GroupOfMembers
from rig.steady_producer import SteadyProducer

MEMBERS_MIN, MEMBERS_MAX = 2, 8
PARTITIONS = 12
BETWEEN_RECORDS_SECONDS = 0.05
ANSWER_SECONDS_MAX = 120.0


@dataclass(kw_only=True)
class Storm:
    """What happened. `settled_seconds` count from the last event to the final sharing."""

    joins: int = 0
    leaves: int = 0
    kills: int = 0
    records: int = 0
    repeated: int = 0  # records that were read more than once
    settled_seconds: float = 0.0
    still_here: int = 0

    @property
    def events(self) -> int:
        return self.joins + self.leaves + self.kills


@dataclass(kw_only=True)
class Weather:
    """How long it storms, by which seed, and who takes part: each member one of these kinds."""

    seconds: float = 0.0
    events_min: int = 0  # it goes on until there were so many
    pause_seconds_max: float = 1.5  # between two events
    seed: int
    kinds: Sequence[Kind]
    settings: Mapping[str, str] = field(default_factory=dict)
    settle_seconds_max: float


def rage(*, bootstrap: str, name: str, weather: Weather) -> Storm:
    """Storms over a group and a topic of this name; an AssertionError says what did not hold."""
    admin = ConfluentClient(bootstrap)
    admin.create_topic(name, partitions=PARTITIONS)
    admin.close()
    group = GroupOfMembers(bootstrap=bootstrap, topic=name, partitions=PARTITIONS, group=name)
    producer = SteadyProducer(
        bootstrap=bootstrap,
        topic=name,
        partitions=PARTITIONS,
        pause_seconds=BETWEEN_RECORDS_SECONDS,
    )
    watch = CommitWatch(group, bootstrap=bootstrap, name=name)
    try:
        with producer:
            storm, here = _blow(group, watch, weather)
            began = time.monotonic()
            group.await_shared_by(*here, within_seconds=weather.settle_seconds_max)
            storm.settled_seconds = time.monotonic() - began
        group.await_read(producer.stored)
        watch.look()
        group.await_shared_by(*here)
    finally:
        group.end()
    storm.records = len(producer.stored)
    storm.repeated = sum(count > 1 for count in group.read().values())
    storm.still_here = len(here)
    return storm


class CommitWatch:
    """Looks at what a group has committed, and compares it with what its members told before."""

    def __init__(self, group: GroupOfMembers, *, bootstrap: str, name: str) -> None:
        self._group = group
        self._name = name
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": QUIET})
        self._committed: dict[int, int] = {}

    def look(self) -> None:
        before, self._committed = self._committed, self._fetch()
        for partition, offset in before.items():
            now = self._committed.get(partition)
            assert now is not None and now >= offset, f"{partition}: {offset} became {now}"
        # A member tells before it commits, but its words may still be on the way.
        self._group.await_read(
            (partition, offset)
            for partition, end in self._committed.items()
            for offset in range(end)
        )

    def _fetch(self) -> dict[int, int]:
        asked = [ConsumerGroupTopicPartitions(self._name)]
        (future,) = self._admin.list_consumer_group_offsets(asked).values()
        told = future.result(ANSWER_SECONDS_MAX).topic_partitions
        return {one.partition: one.offset for one in told if one.offset >= 0}


def _blow(
    group: GroupOfMembers, watch: CommitWatch, weather: Weather
) -> tuple[Storm, list[GroupMember]]:
    dice = random.Random(weather.seed)
    storm = Storm()
    here: list[GroupMember] = []
    leaving: list[GroupMember] = []
    until = time.monotonic() + weather.seconds
    while time.monotonic() < until or storm.events < weather.events_min or len(here) < MEMBERS_MIN:
        if len(here) < MEMBERS_MIN or (len(here) < MEMBERS_MAX and dice.random() < 0.5):
            kind = dice.choice(weather.kinds)
            here.append(group.start(kind.command, **{**weather.settings, **kind.settings}))
            storm.joins += 1
        elif dice.random() < 0.5:
            member = here.pop(dice.randrange(len(here)))
            member.begin_to_leave()
            leaving.append(member)
            storm.leaves += 1
        else:
            here.pop(dice.randrange(len(here))).kill()
            storm.kills += 1
        watch.look()
        time.sleep(dice.uniform(0.1, weather.pause_seconds_max))
    for member in leaving:
        member.await_left()
    return storm, here
