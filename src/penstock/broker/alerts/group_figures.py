"""How far groups are behind, from the samples of metrics, and where that is not known.

A committed offset has no age where the partition has no replica here and its leader has not said
(`lags_elsewhere`), where too many others are behind, or where the disk does not answer; offsets
beyond a bound are not among the samples at all (`may_be_left_out`). Each of them may be further
behind than all that are known, so such a subject has a figure only if what is known of it is beyond
the threshold. Otherwise its figure is None: its alert stays as it is.

Groups of replays of dead letters have no figures: each replay only notes there how far it got, and
without the note the next one would write the same letters again. Queries of Spark commit without
being members: they are behind or not, and never without members.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.alerts.machine import MayBeLeftOut
from penstock.alerts.rule import Rule
from penstock.alerts.rules import GROUP_LAG, GROUP_WITHOUT_MEMBERS
from penstock.broker.alerts.lags_elsewhere import GroupPlace
from penstock.broker.metrics import groups
from penstock.metrics.family import Sample
from penstock.model.group_name import is_of_replay, is_to_have_members
from penstock.model.identity import TopicPartition
from penstock.model.limit import METRICS_LAGS_MAX
from penstock.model.offset import Offset

ANY_PARTITION = ""


class GroupFigures(NamedTuple):
    lags: dict[str, float | None]  # seconds, by group and topic
    unattended: dict[str, float | None]  # seconds, by group without members
    is_complete: bool  # no: there may be subjects without a figure


def committed_elsewhere(samples: Iterable[Sample]) -> dict[GroupPlace, Offset]:
    """Of partitions that have no replica here."""
    found: dict[tuple[str, ...], float] = {}
    for sample in samples:
        if sample.family is groups.COMMITTED:
            found[sample.labels] = sample.value
        elif sample.family is groups.RECORDS:
            del found[sample.labels]
    return {
        GroupPlace(group, TopicPartition(topic, int(index))): Offset(int(offset))
        for (group, topic, index), offset in found.items()
        if not is_of_replay(group)
    }


def group_figures(
    samples: Iterable[Sample],
    *,
    elsewhere: Mapping[GroupPlace, float],
    lag: Rule,
    unattended: Rule,
) -> GroupFigures:
    """By the rules as they are set: their thresholds say which figures are enough. `elsewhere` has
    the ages that leaders of other partitions have told.
    """
    members: dict[str, float] = {}
    ages: dict[tuple[str, ...], float | None] = {}  # by group, topic and partition
    is_complete = True
    for sample in samples:
        if sample.family is groups.COMMITTED:
            ages[sample.labels] = None  # until its age comes
        elif sample.family is groups.SECONDS:
            ages[sample.labels] = sample.value
        elif sample.family is groups.MEMBERS:
            members[sample.labels[0]] = sample.value
        elif sample.family is groups.LEFT_OUT and sample.value > 0:
            is_complete = False
    for (group, (topic, index)), age in elsewhere.items():
        ages[group, topic, str(index)] = age
    if ages and not is_complete:
        group, topic, _ = next(reversed(ages))  # more of its partitions may be left out
        ages[group, topic, ANY_PARTITION] = None
    ages = {place: age for place, age in ages.items() if not is_of_replay(place[0])}
    lags = _furthest(((f"{group} {topic}", age) for (group, topic, _), age in ages.items()), lag)
    behind = _furthest(((group, age) for (group, _, _), age in ages.items()), unattended)
    waited: dict[str, float | None] = {}
    for group, seconds in behind.items():
        if not is_to_have_members(group):
            continue
        if members.get(group) == 0:
            waited[group] = seconds
        elif group not in members and len(members) >= METRICS_LAGS_MAX:
            waited[group] = None  # nobody has told whether it has members
    if not is_complete:  # a group with members is fine, whatever was left out of its offsets
        waited |= {group: 0.0 for group, count in members.items() if count > 0}
    return GroupFigures(lags=lags, unattended=waited, is_complete=is_complete)


def may_be_left_out(coordinator: groups.Groups) -> dict[str, MayBeLeftOut]:
    """By rule: whether a subject without a figure has committed offsets here. If it has none, its
    group was deleted, has lost them, or belongs to another node by now.
    """

    def has_offsets(group: str) -> bool:
        return any(shard.offsets.of_group(group) for shard in coordinator.shards)

    def has_offsets_of_topic(subject: str) -> bool:
        group, _, topic = subject.rpartition(" ")
        return any(topic in shard.offsets.of_group(group) for shard in coordinator.shards)

    return {GROUP_LAG.name: has_offsets_of_topic, GROUP_WITHOUT_MEMBERS.name: has_offsets}


def _furthest(ages: Iterable[tuple[str, float | None]], rule: Rule) -> dict[str, float | None]:
    """The largest of each subject. None where that is not beyond and not all are known."""
    known: dict[str, float] = {}
    unknown: set[str] = set()
    for subject, age in ages:
        if age is None:
            unknown.add(subject)
        else:
            known[subject] = max(known.get(subject, 0.0), age)
    figures: dict[str, float | None] = dict(known)
    figures |= {one: None for one in unknown if not rule.is_beyond(known.get(one, 0.0))}
    return figures
