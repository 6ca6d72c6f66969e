"""Topics as a topology wants them, against topics as they are: the steps between the two. Pure.

Steps only add and set, never delete: what a file does not name it does not know of, and neither
partitions nor replicas are taken away.
"""

from collections.abc import Mapping

from penstock.client.admin.topology import WantedTopic
from penstock.model.error import PenstockError
from penstock.model.lazy_dataclass import dataclass


class ImpossiblePlan(PenstockError):
    """The file wants what a topic can't become."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopic:
    partitions: int
    replicas: int
    settings: Mapping[str, str | None]  # those of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    topic: WantedTopic

    def __str__(self) -> str:
        partitions = self.topic.partitions or "the broker's number of"
        replicas = f" of {self.topic.replicas} replicas" if self.topic.replicas else ""
        return f"create {self.topic.name}: {partitions} partitions{replicas}" + _listed(
            self.topic.settings
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    name: str
    count: int  # that there are afterwards
    key: str | None = None  # what its records are keyed by

    def __str__(self) -> str:
        # Kafka's clients choose a partition by the key and the number of partitions.
        moved = f" (its {self.key} may move to another one, out of order)" if self.key else ""
        return f"alter {self.name}: {self.count} partitions{moved}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSettings:
    name: str
    settings: Mapping[str, str]

    def __str__(self) -> str:
        return f"alter {self.name}:{_listed(self.settings)}"


Step = CreateTopic | AddPartitions | SetSettings


def plan_topics(
    wanted: Mapping[str, WantedTopic],
    found: Mapping[str, FoundTopic],
    *,
    more_partitions: bool = False,
) -> list[Step]:
    """What to do, in the order of the file; all of it is possible, as far as can be told here. With
    `more_partitions` topics may have more partitions than the file says, and keep them.
    """
    steps: list[Step] = []
    for name, topic in wanted.items():
        there = found.get(name)
        if there is None:
            steps.append(CreateTopic(topic=topic))
            continue
        _refuse_impossible(topic, there, more_partitions=more_partitions)
        if topic.partitions is not None and topic.partitions > there.partitions:
            steps.append(AddPartitions(name=name, count=topic.partitions, key=topic.key))
        changed = {n: v for n, v in topic.settings.items() if there.settings.get(n) != v}
        if changed:
            steps.append(SetSettings(name=name, settings=changed))
    return steps


def _refuse_impossible(topic: WantedTopic, there: FoundTopic, *, more_partitions: bool) -> None:
    too_many = topic.partitions is not None and topic.partitions < there.partitions
    if too_many and not more_partitions:
        raise ImpossiblePlan(
            f"{topic.name} has {there.partitions} partitions, and can't go back to"
            f" {topic.partitions}: records would be lost"
        )
    if topic.replicas is not None and topic.replicas != there.replicas:
        raise ImpossiblePlan(
            f"{topic.name} has {there.replicas} replicas, and the file wants {topic.replicas}:"
            " to place replicas anew is not done here"
        )


def _listed(settings: Mapping[str, str]) -> str:
    return "".join(f" {name}={value}" for name, value in settings.items())
