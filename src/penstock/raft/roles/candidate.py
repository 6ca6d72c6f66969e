"""Candidate: has begun an epoch, voted for itself, and asks the others."""

from dataclasses import field

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass


@dataclass(slots=True, kw_only=True)
class Candidate:
    deadline_ms: int
    attempts: int
    granted: set[NodeId]
    refused: set[NodeId] = field(default_factory=set)
    asked: dict[NodeId, int] = field(default_factory=dict)  # numbers of requests under way
    ask_ms: dict[NodeId, int] = field(default_factory=dict)  # when a voter is asked again

    @property
    def name(self) -> str:
        return "candidate"
