"""Who votes. A voter is a node and, from kraft.version 1 on, one directory of it.

A node whose disk was replaced has another directory id. It may have voted and have forgotten it, so
it is no voter any more (KIP-853). With kraft.version 0 the set has no directory ids, and ids alone
count. That set is fixed: it is in the settings of each node, which have to be the same on all.
"""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.model.identity import NodeId


class ReplicaKey(NamedTuple):
    """One replica of the metadata log. `directory_id` is None where it is not known."""

    node_id: NodeId
    directory_id: bytes | None

    def __str__(self) -> str:
        return (
            f"{self.node_id}"
            if self.directory_id is None
            else f"{self.node_id}-{self.directory_id.hex()[:8]}"
        )


class VoterSet:
    """The voters of one quorum. It never changes; a change of voters makes another set."""

    __slots__ = ("_others", "is_fixed", "keys", "majority", "node_ids")

    def __init__(self, keys: Iterable[ReplicaKey]) -> None:
        self.keys: dict[NodeId, ReplicaKey] = {key.node_id: key for key in keys}
        assert self.keys, "a quorum has a voter"
        self.node_ids: tuple[NodeId, ...] = tuple(sorted(self.keys))
        self.majority: int = len(self.keys) // 2 + 1
        self.is_fixed: bool = all(key.directory_id is None for key in self.keys.values())
        self._others: dict[NodeId, tuple[ReplicaKey, ...]] = {}

    def includes(self, key: ReplicaKey) -> bool:
        """Whether this very replica votes."""
        voter = self.keys.get(key.node_id)
        if voter is None:
            return False
        return voter.directory_id is None or voter.directory_id == key.directory_id

    def others(self, node_id: NodeId) -> tuple[ReplicaKey, ...]:
        known = self._others.get(node_id)
        if known is None:
            known = tuple([self.keys[other] for other in self.node_ids if other != node_id])
            self._others[node_id] = known
        return known
