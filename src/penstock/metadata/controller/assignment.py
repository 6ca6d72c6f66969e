"""Which brokers hold a partition, now and after a reassignment (KIP-455).

    replicas   all that hold it: the target first, in its order, then those that are to go
    adding     those that did not hold it before the reassignment
    removing   those that do not hold it after the reassignment

A reassignment whose target is changed while it runs still knows where it began: a replica that was
added for the first target, and is not in the second one, is in both lists. It stays until the end,
since it may be in sync by now. Without a reassignment both lists are empty.
"""

from collections.abc import Sequence
from typing import Self

from penstock.metadata.image.topic import PartitionImage
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass

Nodes = tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """See the module."""

    replicas: Nodes
    adding: Nodes = ()
    removing: Nodes = ()

    def __post_init__(self) -> None:
        assert len(set(self.replicas)) == len(self.replicas), self
        assert {*self.adding, *self.removing} <= set(self.replicas), self
        assert self.original, self
        assert self.target, self

    @classmethod
    def of(cls, partition: PartitionImage) -> Self:
        return cls(
            replicas=partition.replicas,
            adding=partition.adding_replicas,
            removing=partition.removing_replicas,
        )

    @property
    def is_changing(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Nodes:
        """Who holds the partition in the end."""
        return _without(self.replicas, self.removing)

    @property
    def original(self) -> Nodes:
        """Who held the partition before; their order may have been another one."""
        return _without(self.replicas, self.adding)

    @property
    def replica_count(self) -> int:
        """See `PartitionImage.replica_count`."""
        return min(len(self.original), len(self.target))

    def towards(self, target: Sequence[NodeId]) -> Self:
        """The assignment once a reassignment to `target` has begun."""
        assert target, self
        removing = sorted(_without(self.replicas, target))
        replicas = (*target, *removing)
        return type(self)(
            replicas=replicas,
            adding=tuple(sorted(_without(replicas, self.original))),
            removing=tuple(removing),
        )

    def completed(self) -> Self:
        return type(self)(replicas=self.target)

    def reverted(self) -> Self:
        return type(self)(replicas=self.original)


def _without(nodes: Sequence[NodeId], others: Sequence[NodeId]) -> Nodes:
    if not others:  # nearly always: thousands of partitions may be asked when a broker is lost
        return tuple(nodes)
    return tuple(node for node in nodes if node not in others)
