"""The controller of one partition: registrations, fencing, in-sync and eligible sets, elections.

A small model of what `metadata/controller` decides, on one partition and without a quorum: its
decisions last when they are made. Every change is a new image, and nodes get images in order.

    leader from     the in-sync set, then the eligible set (KIP-966); when both are empty the last
                    leader, marked as recovering, if it still has its disk
    eligible        who left the in-sync set while that was smaller than `min.insync.replicas`, for
                    as long as it is: nothing is committed meanwhile
"""

from typing import Final, NamedTuple

from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.replication.followers import NO_BROKER_EPOCH, InSyncChange
from penstock.sim.replication.flaws import ReplicationFlaw

NO_LEADER: Final = NodeId(-1)


class Image(NamedTuple):
    """What nodes know of the metadata."""

    version: int
    leader: NodeId
    leader_epoch: int
    partition_epoch: int
    in_sync: tuple[NodeId, ...]
    recovering: bool
    in_sync_min: int
    broker_epochs: tuple[int, ...]  # by node
    fenced: tuple[bool, ...]  # by node


class Controller:
    def __init__(self, node_count: int, *, in_sync_min: int, flaw: ReplicationFlaw | None) -> None:
        self.nodes = [NodeId(number) for number in range(node_count)]
        self.in_sync_min = in_sync_min
        self.leader = NO_LEADER
        self.leader_epoch = 0
        self.partition_epoch = 0
        self.in_sync: set[NodeId] = set(self.nodes)
        self.eligible: set[NodeId] = set()
        self.recovering = False
        self.broker_epochs = [NO_BROKER_EPOCH] * node_count
        self.fenced = [True] * node_count
        self.images: list[Image] = []
        self.leaders_elected = 0
        self._last_leader = NO_LEADER
        self._directories = [-1] * node_count  # as the brokers have registered them
        self._named = [-1] * node_count  # as the partition's record has them
        self._next_broker_epoch = 0
        self._heard_of: dict[tuple[NodeId, int], int] = {}  # requests, by node and broker epoch
        self._flaw = flaw
        self._publish()

    @property
    def image(self) -> Image:
        return self.images[-1]

    @property
    def is_stuck(self) -> bool:
        """Whether only an operator can choose a leader."""
        return (
            self.leader == NO_LEADER
            and not self.in_sync
            and not self.eligible
            and not self._last_leader_has_its_disk()
        )

    # Brokers

    def register(self, node: NodeId, *, clean: bool, directory_id: int) -> int:
        """A new incarnation: handled as a fencing first. Returns its broker epoch."""
        if self._directories[node] < 0:
            self._named[node] = directory_id
            clean = True  # its first start: there is nothing that it could have lost
            self.fenced[node] = True
        elif self._flaw is not ReplicationFlaw.EPOCH_KEPT_BY_NEW_INCARNATION:
            self._take_out(node, eligible=clean)
            self.fenced[node] = True
        self._directories[node] = directory_id
        self._next_broker_epoch += 1
        self.broker_epochs[node] = self._next_broker_epoch
        self._elect()
        self._publish()
        return self._next_broker_epoch

    def fence(self, node: NodeId) -> None:
        if not self.fenced[node]:
            self.fenced[node] = True
            self._take_out(node, eligible=True)
            self._elect()
            self._publish()

    def unfence(self, node: NodeId) -> None:
        self.fenced[node] = False
        self._elect()
        self._publish()

    # The partition

    def alter(
        self, node: NodeId, broker_epoch: int, number: int, change: InSyncChange
    ) -> ErrorCode | None:
        """A leader asks for another in-sync set; None when the request came too late.

        Of one connection requests come in order, and what is left of an older connection is not
        read any more: a request that was sent before one that is known here is dropped.
        """
        if number < self._heard_of.get((node, broker_epoch), 0):
            return None
        self._heard_of[node, broker_epoch] = number
        if broker_epoch != self.broker_epochs[node]:
            return ErrorCode.STALE_BROKER_EPOCH
        if node != self.leader or change.leader_epoch != self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if change.partition_epoch != self.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if self.recovering and len(change.members) > 1:
            return ErrorCode.INVALID_REQUEST
        for member, epoch in change.members:
            if member != node and (
                self.fenced[member] or epoch not in (NO_BROKER_EPOCH, self.broker_epochs[member])
            ):
                return ErrorCode.INELIGIBLE_REPLICA
        members = {member for member, _ in change.members}
        if members != self.in_sync or self.recovering:
            for member in members:
                self._named[member] = self._directories[member]
            self._set_in_sync(members)
            self.recovering = False
            self.partition_epoch += 1
            self._publish()
        return ErrorCode.NONE

    def require(self, in_sync_min: int) -> None:
        """Another `min.insync.replicas`: who was eligible by the old one is so no more."""
        self.in_sync_min = in_sync_min
        if self._flaw is not ReplicationFlaw.ELIGIBLE_KEPT:
            self.eligible.clear()
        self._publish()

    def move_leader(self, node: NodeId) -> None:
        """Another in-sync replica leads, or the same one in another epoch."""
        if self.leader != NO_LEADER and node in self.in_sync and not self.recovering:
            self._lead(node)
            self._publish()

    def elect_unclean(self) -> bool:
        """What an operator does when nobody has the records; whether there is anyone to lead."""
        for node in self.nodes:
            if not self.fenced[node]:
                self.in_sync = {node}
                self.recovering = True
                self._lead(node)
                self._publish()
                return True
        return False

    # What a change of the brokers means for the partition

    def _take_out(self, node: NodeId, *, eligible: bool) -> None:
        if not eligible:
            self.eligible.discard(node)
        if node in self.in_sync:
            self._set_in_sync(self.in_sync - {node})
            if not eligible:
                self.eligible.discard(node)
        if node == self.leader:
            self.leader = NO_LEADER
            if self._flaw is not ReplicationFlaw.EPOCH_GIVEN_TWICE:
                self.leader_epoch += 1
        self.partition_epoch += 1

    def _set_in_sync(self, members: set[NodeId]) -> None:
        gone = self.in_sync - members
        self.in_sync = set(members)
        if len(members) >= self.in_sync_min:
            self.eligible.clear()
        else:
            self.eligible = (self.eligible | gone) - members

    def _elect(self) -> None:
        if self.leader != NO_LEADER:
            return
        for node in self.nodes:
            if node in self.in_sync and not self.fenced[node]:
                self._lead(node)
                return
        for node in self.nodes:
            if node in self.eligible and not self.fenced[node]:
                self.eligible.discard(node)
                self._set_in_sync({node})
                self._lead(node)
                return
        last = self._last_leader
        if (
            not self.in_sync
            and not self.eligible
            and self._last_leader_has_its_disk()
            and not self.fenced[last]
        ):
            self.in_sync = {last}
            self.recovering = True
            self._lead(last)

    def _last_leader_has_its_disk(self) -> bool:
        last = self._last_leader
        return last != NO_LEADER and self._directories[last] == self._named[last]

    def _lead(self, node: NodeId) -> None:
        is_other = self._last_leader not in (NO_LEADER, node)
        self.leader = self._last_leader = node
        if not is_other or self._flaw is not ReplicationFlaw.EPOCH_GIVEN_TWICE:
            self.leader_epoch += 1
        self.partition_epoch += 1
        self.leaders_elected += 1

    def _publish(self) -> None:
        self.images.append(
            Image(
                version=len(self.images),
                leader=self.leader,
                leader_epoch=self.leader_epoch,
                partition_epoch=self.partition_epoch,
                in_sync=tuple(sorted(self.in_sync)),
                recovering=self.recovering,
                in_sync_min=self.in_sync_min,
                broker_epochs=tuple(self.broker_epochs),
                fenced=tuple(self.fenced),
            )
        )
