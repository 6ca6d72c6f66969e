"""The figures of the alerts, from the sources that `/metrics` asks too, in turns with the rest.

A round reads the state that the node has anyway, and the counters of requests. Start
reading at `FigureSources.snapshot`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

from penstock.alerts import rules
from penstock.alerts.machine import Snapshot
from penstock.alerts.rule import WHOLE, Rule, Scope
from penstock.broker.alerts.group_figures import (
    committed_elsewhere,
    group_figures,
    may_be_left_out,
)
from penstock.broker.alerts.lags_elsewhere import LagsElsewhere
from penstock.broker.alerts.produce_figures import ProduceFigures
from penstock.broker.alerts.record_growth import RecordGrowth
from penstock.broker.controller.local_controller import LocalController
from penstock.broker.metrics import cluster, compaction, logs, replicas, transactions
from penstock.broker.metrics.gathering import gathered
from penstock.broker.metrics.groups import Groups
from penstock.metrics.family import Sample, Source
from penstock.raft.roles.follower import Follower
from penstock.raft.roles.leader import Leader
from penstock.world.ports import Clock

# By its name: what reads certificates is not imported where there are none.
CERTIFICATE_EXPIRY = "penstock_certificate_expiry_timestamp_seconds"
ONE_SUBJECT = {
    replicas.UNDER_REPLICATED.name: rules.UNDER_REPLICATED.name,
    replicas.UNDER_MIN.name: rules.UNDER_MIN_IN_SYNC.name,
    logs.OFFLINE.name: rules.DIRECTORY_OFFLINE.name,
    transactions.OLDEST.name: rules.TRANSACTION_OPEN.name,
    compaction.LEFT_ALONE.name: rules.COMPACTION_FAILS.name,
    cluster.OFFLINE.name: rules.OFFLINE_PARTITIONS.name,
    cluster.FENCED.name: rules.BROKER_FENCED.name,
}
Gathered = dict[str, dict[str, float | None]]  # figures, by rule and subject


class FigureSources:
    """`of_node` are always asked, `of_cluster` while this node is the active controller."""

    def __init__(
        self,
        *,
        local: LocalController,
        evaluated: Iterable[Rule],  # with the thresholds that are set
        of_node: Sequence[Source],
        of_cluster: Source,
        groups: Groups | None,  # None, as the next two: the node is no broker
        growth: RecordGrowth | None,
        elsewhere: LagsElsewhere | None,
        produce: ProduceFigures,
        clock: Clock,
    ) -> None:
        self._local = local
        self._evaluated = {rule.name: rule for rule in evaluated}
        self._of_node = tuple(of_node)
        self._of_cluster = of_cluster
        self._left_out = {} if groups is None else may_be_left_out(groups)
        self._growth = growth
        self._elsewhere = elsewhere
        self._produce = produce
        self._clock = clock

    @property
    def scopes(self) -> frozenset[Scope]:
        return frozenset(Scope) if self._local.is_active else frozenset({Scope.NODE})

    async def snapshot(self) -> Snapshot:
        scopes = self.scopes
        sources = self._of_node
        if Scope.CLUSTER in scopes:
            sources = (*sources, self._of_cluster)
        samples = await gathered(sources, self._clock)
        figures = figures_of(samples, now_ms=self._clock.now_ms())
        await asyncio.sleep(0)
        ages = {}
        if self._elsewhere is not None:
            ages = self._elsewhere.ages_s(committed_elsewhere(samples))
        of_groups = group_figures(
            samples,
            elsewhere=ages,
            lag=self._evaluated[rules.GROUP_LAG.name],
            unattended=self._evaluated[rules.GROUP_WITHOUT_MEMBERS.name],
        )
        figures[rules.GROUP_LAG.name] = of_groups.lags
        figures[rules.GROUP_WITHOUT_MEMBERS.name] = of_groups.unattended
        # A voter that stands for election, or that has lost a pre-vote and is a follower again,
        # still knows who led its epoch: the role tells.
        role = self._local.quorum.replica.state.role
        has_leader = isinstance(role, Leader) or (isinstance(role, Follower) and not role.lost)
        figures[rules.NO_CONTROLLER.name] = {WHOLE: 0.0 if has_leader else 1.0}
        if self._growth is not None:
            figures |= self._growth.look(now_ms=self._clock.monotonic_ms())
        figures |= self._produce.look(now_ms=self._clock.monotonic_ms())
        return Snapshot(
            now_ms=self._clock.monotonic_ms(),
            scopes=scopes,
            figures=figures,
            left_out={} if of_groups.is_complete else self._left_out,
        )


def figures_of(samples: Iterable[Sample], *, now_ms: int) -> Gathered:
    """What the samples of metrics say in the terms of the rules, but for those of groups."""
    figures: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    free: dict[str, float] = {}
    for sample in samples:
        family, value = sample.family, sample.value
        if family.name in ONE_SUBJECT:
            figures[ONE_SUBJECT[family.name]][WHOLE] = value
        elif family is logs.FREE:
            free[sample.labels[0]] = value
        elif family is logs.TOTAL and value > 0:
            [directory] = sample.labels
            figures[rules.DISK_FILLING.name][directory] = 1 - free[directory] / value
        elif family.name == CERTIFICATE_EXPIRY:
            figures[rules.CERTIFICATE_EXPIRES.name][sample.labels[0]] = value - now_ms / 1000
    return dict(figures)
