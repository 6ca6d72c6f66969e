"""Prospective: asks who would vote for it before it begins a new epoch (KIP-996)."""

from dataclasses import field

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass


@dataclass(slots=True, kw_only=True)
class Prospective:
    """`leader_id`: the leader that it has lost, whom it follows again if nobody would vote."""

    leader_id: NodeId | None
    deadline_ms: int
    attempts: int
    granted: set[NodeId]
    refused: set[NodeId] = field(default_factory=set)
    asked: dict[NodeId, int] = field(default_factory=dict)  # numbers of requests under way
    ask_ms: dict[NodeId, int] = field(default_factory=dict)  # when a voter is asked again

    @property
    def name(self) -> str:
        return "prospective"
