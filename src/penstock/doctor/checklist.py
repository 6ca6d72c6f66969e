"""The checks, in the order in which they are told."""

from collections.abc import Callable

from penstock.doctor import (
    availability,
    durability,
    guard,
    kept,
    layout,
    left_open,
    machines,
    readers,
    writes,
)
from penstock.doctor.finding import Finding
from penstock.doctor.seen import ClusterSeen, Limits

CHECKS: tuple[Callable[[ClusterSeen, Limits], Finding], ...] = (
    durability.replication,
    durability.min_insync,
    availability.offline,
    availability.under_min_insync,
    availability.under_replicated,
    writes.acks,
    writes.idempotence,
    writes.compression,
    kept.retention,
    kept.dead_letters,
    layout.partitions,
    layout.leader_balance,
    layout.hot_partitions,
    readers.lag,
    readers.empty_groups,
    readers.offset_reset,
    left_open.transactions,
    guard.tls,
    guard.acls,
    machines.disk,
    machines.clock,
    machines.descriptors,
)


def examine(seen: ClusterSeen, limits: Limits) -> list[Finding]:
    return [check(seen, limits) for check in CHECKS]
