"""Who votes. A voter is a node and, from kraft.version 1 on, one directory of it.

A node whose disk was replaced has another directory id. It may have voted and have forgotten it, so
it is no voter any more (KIP-853). With kraft.version 0 the set has no directory ids, and ids alone
count. That set is fixed: it is in the settings of each node, which have to be the same on all.
With kraft.version 1 the sets are in the log, and the last one in it is in force (`voter_history`).
"""

from collections.abc import Iterable, Mapping
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


class VoterEndpoint(NamedTuple):
    """One of a voter's controller listeners."""

    name: str
    host: str
    port: int


class VoterDetails(NamedTuple):
    """How a voter is reached, and the levels of kraft.version that it supports."""

    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_version_min: int = 0
    kraft_version_max: int = 1


UNKNOWN_DETAILS = VoterDetails()


class VoterSet:
    """The voters of one quorum. It never changes; a change of voters makes another set. The set of
    a replica that does not know the voters yet is empty.
    """

    __slots__ = ("_others", "details", "is_fixed", "keys", "majority", "node_ids")

    def __init__(
        self, keys: Iterable[ReplicaKey], details: Mapping[NodeId, VoterDetails] | None = None
    ) -> None:
        self.keys: dict[NodeId, ReplicaKey] = {key.node_id: key for key in keys}
        self.details: dict[NodeId, VoterDetails] = {} if details is None else dict(details)
        self.node_ids: tuple[NodeId, ...] = tuple(sorted(self.keys))
        self.majority: int = len(self.keys) // 2 + 1
        fixed = all(key.directory_id is None for key in self.keys.values())
        self.is_fixed: bool = fixed and bool(self.keys)
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

    def details_of(self, node_id: NodeId) -> VoterDetails:
        return self.details.get(node_id, UNKNOWN_DETAILS)

    def with_voter(self, key: ReplicaKey, details: VoterDetails) -> "VoterSet":
        """With this voter, in place of one with the same id."""
        return VoterSet(
            {**self.keys, key.node_id: key}.values(), {**self.details, key.node_id: details}
        )

    def without(self, node_id: NodeId) -> "VoterSet":
        return VoterSet(
            [key for key in self.keys.values() if key.node_id != node_id],
            {node: one for node, one in self.details.items() if node != node_id},
        )

    def __str__(self) -> str:
        return ", ".join(str(self.keys[node]) for node in self.node_ids)
