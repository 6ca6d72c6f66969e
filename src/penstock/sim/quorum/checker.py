"""What holds in every run, whatever fails: checked at each step, on what the step touched.

1. An epoch has one leader.
2. A voter votes once an epoch.
3. What one replica knows to be committed, every replica that knows the offset has.
4. A leader has everything that earlier epochs have committed. One that learns late of its election
   may lack what a later leader has committed since; it can commit nothing itself.
5. What a client was told to be done is committed.
6. The epoch on a disk never goes back, and a vote on it is changed only with the epoch.
"""

from bisect import bisect_left

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.effects import HardState
from penstock.raft.voters import ReplicaKey
from penstock.sim.quorum.disk import LogEntry, ReplicaDisk
from penstock.sim.quorum.violation import Violation


class Checker:
    def __init__(self) -> None:
        self.committed: list[LogEntry] = []  # by offset
        self._committed_in: list[LeaderEpoch] = []  # the epoch of the leader that did, by offset
        self.leaders: dict[LeaderEpoch, NodeId] = {}
        self.acked = 0
        self.installed = 0  # snapshots
        self._votes: dict[tuple[LeaderEpoch, NodeId], ReplicaKey] = {}

    def elected(self, epoch: LeaderEpoch, node_id: NodeId, disk: ReplicaDisk) -> None:
        known = self.leaders.setdefault(epoch, node_id)
        if known != node_id:
            raise Violation(f"two leaders in epoch {epoch}: {known} and {node_id}")
        earlier = self.committed[: bisect_left(self._committed_in, epoch)]
        has = disk.everything()[: len(earlier)]
        if has != earlier:
            raise Violation(
                f"committed entry lost: node {node_id} leads epoch {epoch} without "
                f"{_first_difference(has, earlier)}"
            )

    def voted(self, epoch: LeaderEpoch, voter: NodeId, candidate: ReplicaKey) -> None:
        known = self._votes.setdefault((epoch, voter), candidate)
        if known != candidate:
            raise Violation(
                f"vote given twice: node {voter} in epoch {epoch} to {known} and {candidate}"
            )

    def persists(self, node_id: NodeId, before: HardState, after: HardState) -> None:
        if after.epoch < before.epoch:
            raise Violation(f"node {node_id} goes back from epoch {before.epoch} to {after.epoch}")
        kept = before.voted is None or before.voted == after.voted
        if after.epoch == before.epoch and not kept:
            raise Violation(
                f"node {node_id} changes its vote in epoch {after.epoch}: {before.voted} was "
                f"persisted, then {after.voted}"
            )

    def commits(
        self,
        node_id: NodeId,
        disk: ReplicaDisk,
        *,
        epoch: LeaderEpoch,
        start: Offset,
        end: Offset,
    ) -> None:
        """A replica takes [start, end) for committed; the first to do so is the leader."""
        for offset in range(max(start, disk.start_offset), end):
            entry = disk.entry(Offset(offset))
            if offset == len(self.committed):
                self.committed.append(entry)
                self._committed_in.append(epoch)
            elif offset > len(self.committed):
                raise Violation(f"node {node_id} commits {offset}, beyond {len(self.committed)}")
            elif self.committed[offset] != entry:
                raise Violation(
                    f"logs disagree below the watermark: node {node_id} has {entry} at {offset}, "
                    f"committed was {self.committed[offset]}"
                )

    def installs(self, node_id: NodeId, content: tuple[LogEntry, ...]) -> None:
        self.installed += 1
        if list(content) != self.committed[: len(content)]:
            raise Violation(f"node {node_id} installs a snapshot of what was not committed")

    def acks(self, offset: Offset, entry: LogEntry) -> None:
        self.acked += 1
        if offset >= len(self.committed) or self.committed[offset] != entry:
            raise Violation(f"acked but not committed: {entry} at {offset}")


def _first_difference(has: list[LogEntry], committed: list[LogEntry]) -> str:
    for offset, entry in enumerate(committed):
        if offset >= len(has) or has[offset] != entry:
            return f"{entry} at {offset}"
    return "nothing"
