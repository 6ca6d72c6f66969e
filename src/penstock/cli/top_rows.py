"""What `penstock top` shows, from two samples of a cluster. Pure.

Rates are differences between the samples; everything else is as the later one tells. None stands
for what nobody told, so that it is never taken for 0.
"""

from collections import Counter
from collections.abc import Mapping
from enum import Enum

from penstock.alerts.report import Report
from penstock.alerts.rule import Scope, Severity
from penstock.cli.alert_figures import figure_text
from penstock.client.admin.alert_evaluation import Evaluated, evaluated
from penstock.client.admin.cluster_sample import ClusterSample
from penstock.client.admin.group_samples import WITH_OFFSETS, GroupSample
from penstock.client.admin.partition_rates import Look, PartitionRate, rates_between
from penstock.client.network.routing import PartitionView
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset


class NodeState(Enum):
    UP = "up"
    SILENT = "no answer"  # the cluster still counts on it
    FENCED = "fenced"
    OFFLINE = "offline"  # it has replicas, and the cluster does not know it


class ProblemKind(Enum):
    """The worst first."""

    NODE = "node"
    OFFLINE = "offline"
    DIRECTORY = "directory offline"
    UNDER_MIN_IN_SYNC = "under min in-sync"
    UNDER_REPLICATED = "under-replicated"
    ALERT = "alert"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    node_id: int
    host: str | None
    port: int | None
    rack: str | None
    is_controller: bool
    leaders: int
    replicas: int
    log_bytes: int | None
    state: NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    name: str
    partitions: int
    records_per_second: float | None
    bytes_per_second: float | None
    size_bytes: int | None  # of the leaders' logs


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    group_id: str
    kind: str
    state: str | None
    members: int | None
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemRow:
    kind: ProblemKind
    about: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    cluster_id: str | None
    controller: int | None
    seconds: float | None  # between the samples; None where there was one alone
    nodes: tuple[NodeRow, ...]
    topics: tuple[TopicRow, ...]  # the busiest first
    groups: tuple[GroupRow, ...]  # the one with the largest lag first
    problems: tuple[ProblemRow, ...]  # the worst first
    unknown: tuple[str, ...]  # what brokers refused to tell

    @property
    def problem_counts(self) -> Mapping[ProblemKind, int]:
        counts = Counter(one.kind for one in self.problems)
        return {kind: counts[kind] for kind in ProblemKind if counts[kind]}


def picture_of(first: ClusterSample | None, then: ClusterSample) -> Picture:
    """`first` is None where there is nothing yet to compare with."""
    nodes = _nodes(first, then)
    return Picture(
        cluster_id=then.view.cluster_id,
        controller=then.controller,
        seconds=None if first is None else (then.at_ms - first.at_ms) / 1000,
        nodes=nodes,
        topics=_topics(first, then),
        groups=_groups(then),
        problems=_problems(then, nodes),
        unknown=tuple(
            dict.fromkeys(
                (
                    *then.refused,
                    *(reason for _, one in sorted(then.answers.items()) for reason in one.refused),
                )
            )
        ),
    )


def _nodes(first: ClusterSample | None, then: ClusterSample) -> tuple[NodeRow, ...]:
    leaders: Counter[NodeId] = Counter()
    replicas: Counter[NodeId] = Counter()
    for _, one in _partitions(then):
        replicas.update(one.replicas)
        if one.leader is not None:
            leaders[one.leader] += 1
    told = {one.node_id: one for one in then.brokers}
    before = {} if first is None else {one.node_id: one for one in first.brokers}
    found = []
    for node in sorted({*told, *replicas, *then.view.brokers}):
        known = told.get(node) or before.get(node)
        answer = then.answers.get(node)
        if node in told and told[node].fenced:
            state = NodeState.FENCED
        elif answer is None:
            state = NodeState.OFFLINE
        else:
            state = NodeState.UP if answer.silent is None else NodeState.SILENT
        sizes = None if answer is None else answer.size_bytes
        found.append(
            NodeRow(
                node_id=node,
                host=None if known is None else known.host,
                port=None if known is None else known.port,
                rack=None if known is None else known.rack,
                is_controller=node == then.controller,
                leaders=leaders[node],
                replicas=replicas[node],
                log_bytes=None if sizes is None else sum(sizes.values()),
                state=state,
            )
        )
    return tuple(found)


def _topics(first: ClusterSample | None, then: ClusterSample) -> tuple[TopicRow, ...]:
    now = _look(then)
    rates: dict[str, list[PartitionRate]] = {}
    if first is not None:
        for rate in rates_between(_look(first), now):
            rates.setdefault(rate.partition.topic, []).append(rate)
    sizes: Counter[str] = Counter()
    for place, size_bytes in now.size_bytes.items():
        sizes[place.topic] += size_bytes
    found = []
    for name, topic in then.view.topics.items():
        known = rates.get(name)
        found.append(
            TopicRow(
                name=name,
                partitions=len(topic.partitions),
                records_per_second=None if known is None else sum(one.records for one in known),
                bytes_per_second=None
                if known is None or name not in sizes
                else sum(one.in_bytes for one in known),
                size_bytes=sizes.get(name),
            )
        )
    found.sort(
        key=lambda row: (
            -(row.bytes_per_second or 0),
            -(row.records_per_second or 0),
            -(row.size_bytes or 0),
            row.name,
        )
    )
    return tuple(found)


def _look(sample: ClusterSample) -> Look:
    """The part of a sample that rates are made of."""
    starts: dict[TopicPartition, Offset] = {}
    ends: dict[TopicPartition, Offset] = {}
    sizes: dict[TopicPartition, int] = {}
    for answer in sample.answers.values():
        starts.update(answer.start_offset)
        ends.update(answer.end_offset)
        for place in answer.end_offset:
            if answer.size_bytes is not None and place in answer.size_bytes:
                sizes[place] = answer.size_bytes[place]
    return Look(
        at_ms=sample.at_ms, start_offset=starts, end_offset=ends, size_bytes=sizes, committed={}
    )


def _groups(then: ClusterSample) -> tuple[GroupRow, ...]:
    look = _look(then)
    # One that has just moved may be told by two brokers: it is one group.
    groups = {one.group_id: one for answer in then.answers.values() for one in answer.groups}
    rows = [
        GroupRow(
            group_id=one.group_id,
            kind=one.kind.value,
            state=one.state,
            members=one.members,
            lag=_lag(one, look),
        )
        for one in groups.values()
    ]
    rows.sort(key=lambda row: (-1 if row.lag is None else -row.lag - 2, row.group_id))
    return tuple(rows)


def _lag(group: GroupSample, look: Look) -> int | None:
    """In records, over the partitions whose ends are told; None where none is."""
    if group.kind not in WITH_OFFSETS:
        return None
    lags = [
        max(0, look.end_offset[place] - max(offset, look.start_offset.get(place, offset)))
        for place, offset in group.committed.items()
        if place in look.end_offset
    ]
    return sum(lags) if lags else None


def _problems(then: ClusterSample, nodes: tuple[NodeRow, ...]) -> tuple[ProblemRow, ...]:
    found = []
    for node in nodes:
        if node.state is not NodeState.UP:
            answer = then.answers.get(NodeId(node.node_id))
            why = None if answer is None else answer.silent
            detail = f"{node.state.value}: {why}" if why else node.state.value
            found.append(_problem(ProblemKind.NODE, f"node {node.node_id}", detail))
    for node_id, answer in sorted(then.answers.items()):
        for path in answer.offline_directories:
            found.append(_problem(ProblemKind.DIRECTORY, f"node {node_id}", path))
    for place, one in _partitions(then):
        kind = _kind(then, place, one)
        if kind is not None:
            found.append(_problem(kind, str(place), _detail(then, place, one)))
    for report in sorted(then.alerts, key=_alert_order):
        found.append(_problem(ProblemKind.ALERT, report.alert, _alert_detail(then, report)))
    order = list(ProblemKind)
    found.sort(key=lambda row: order.index(row.kind))
    return tuple(found)


def _alert_order(report: Report) -> tuple[bool, int, str, str]:
    return report.severity is not Severity.CRITICAL, report.at_ms, report.alert, report.subject


def _alert_detail(then: ClusterSample, report: Report) -> str:
    """One that nobody evaluates any more may have ended: nobody tells."""
    words = [report.severity.value]
    now = evaluated(report, brokers=then.view.brokers, off=then.alerts_off)
    mark = "" if now is Evaluated.YES else f" ({now.value})"
    if report.scope is Scope.NODE:
        words.append(f"node {report.node}{mark}")
    elif now is Evaluated.OFF:
        words.append(f"cluster{mark}")
    figure = figure_text(report)
    return ", ".join([*words, *(one for one in (report.subject, figure) if one)])


def _problem(kind: ProblemKind, about: str, detail: str) -> ProblemRow:
    return ProblemRow(kind=kind, about=about, detail=detail)


def _kind(then: ClusterSample, place: TopicPartition, one: PartitionView) -> ProblemKind | None:
    if then.view.leader_of(place) is None:
        return ProblemKind.OFFLINE
    if len(one.in_sync) < then.in_sync_min.get(place.topic, 0):
        return ProblemKind.UNDER_MIN_IN_SYNC
    return ProblemKind.UNDER_REPLICATED if len(one.in_sync) < len(one.replicas) else None


def _detail(then: ClusterSample, place: TopicPartition, one: PartitionView) -> str:
    words = [f"in sync {len(one.in_sync)} of {len(one.replicas)}"]
    in_sync_min = then.in_sync_min.get(place.topic)
    if in_sync_min is not None:
        words.append(f"min {in_sync_min}")
    missing = [str(node) for node in one.replicas if node not in one.in_sync]
    if missing:
        words.append(f"missing {','.join(missing)}")
    return ", ".join(words)


def _partitions(then: ClusterSample) -> list[tuple[TopicPartition, PartitionView]]:
    return [
        (TopicPartition(name, one.index), one)
        for name, topic in sorted(then.view.topics.items())
        for one in topic.partitions
    ]
