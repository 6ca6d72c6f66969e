"""Why groups have rebalanced and partitions have got other leaders: what the log tells one by one,
counted. Every cause is told from the start, so that its first time shows as growth.
"""

from collections import Counter

from penstock.broker.coordinators.group_log import Rebalances
from penstock.groups.rebalance_causes import CLASSIC, CONSUMER, Cause
from penstock.metadata.controller.explained import Why
from penstock.metrics.family import Source, Steps, counter

REBALANCES = counter(
    "penstock_group_rebalances_total",
    "What made groups rebalance that this broker coordinates: one member that joins counts one.",
    "protocol",
    "cause",
)
ELECTIONS = counter(
    "penstock_leader_elections_by_cause_total",
    "Elections of partition leaders that this node decided on as the active controller.",
    "cause",
)


def rebalance_metrics(counts: Rebalances) -> Source:
    def samples() -> Steps:
        for protocol in (CLASSIC, CONSUMER):
            for cause in Cause:
                yield REBALANCES.sample(counts[protocol, cause], protocol, cause.value)

    return Source((REBALANCES,), samples)


def election_metrics(counts: Counter[Why]) -> Source:
    def samples() -> Steps:
        for why in Why:
            yield ELECTIONS.sample(counts[why], why.value)

    return Source((ELECTIONS,), samples)
