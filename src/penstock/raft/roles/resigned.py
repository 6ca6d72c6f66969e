"""Resigned: led this epoch and does so no more. It grants no vote in it, and tells the voters."""

from dataclasses import field

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.raft.voters import ReplicaKey


@dataclass(slots=True, kw_only=True)
class Resigned:
    """`elect_ms` is when it stands for election again; None for one that is shutting down."""

    elect_ms: int | None
    successors: tuple[ReplicaKey, ...]
    remind_ms: dict[NodeId, int] = field(default_factory=dict)  # voters that do not know it yet
    reminded: dict[NodeId, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "resigned"
