"""Unattached: no leader to fetch from is known in this epoch. Where a restart begins.

The leader of the epoch may be known by id from `quorum-state`; no other is elected in it.
"""

from dataclasses import field

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass


@dataclass(slots=True, kw_only=True)
class Unattached:
    """`elect_ms` is when a voter stands for election; None for an observer."""

    leader_id: NodeId | None
    elect_ms: int | None
    lost_leader_id: NodeId | None = None  # of this epoch, given up: it is believed only itself
    attempts: int = 0
    gave_way: bool = False  # to another voter
    asked: dict[NodeId, int] = field(default_factory=dict)  # fetches that look for the leader
    ask_ms: dict[NodeId, int] = field(default_factory=dict)  # when each voter is asked again
    reached: set[NodeId] = field(default_factory=set)  # voters that have replied

    @property
    def name(self) -> str:
        return "unattached"
