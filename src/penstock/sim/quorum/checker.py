"""What holds in every run, whatever fails: checked at each step, on what the step touched.

1. An epoch has one leader.
2. A voter votes once an epoch.
3. What one replica knows to be committed, every replica that knows the offset has.
4. A leader has everything that earlier epochs have committed. One that learns late of its election
   may lack what a later leader has committed since; it can commit nothing itself.
5. What a client was told to be done is committed.
6. The epoch on a disk never goes back, and a vote on it is changed only with the epoch.
7. A leader was voted for, and what it commits is durable, on a majority of the voters that its log
   names last, by ids and directory ids.
8. A set of voters is appended only when the one before it and a record of the leader's own epoch
   are committed, and differs from the one before it by one voter.
9. A replica uses the voters that its log names last, also after a truncation.
"""

from bisect import bisect_left

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.effects import HardState
from penstock.raft.voter_history import VotersAt
from penstock.raft.voters import ReplicaKey, VoterSet
from penstock.sim.quorum.disk import VOTERS_MAX, LogEntry, ReplicaDisk
from penstock.sim.quorum.violation import Violation


class Checker:
    def __init__(self) -> None:
        self.committed: list[LogEntry] = []  # by offset
        self._committed_in: list[LeaderEpoch] = []  # the epoch of the leader that did, by offset
        self.leaders: dict[LeaderEpoch, NodeId] = {}
        self.acked = 0
        self.installed = 0  # snapshots
        self.voter_changes = 0  # committed
        self._votes: dict[tuple[LeaderEpoch, ReplicaKey], ReplicaKey] = {}

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

    def has_votes(self, epoch: LeaderEpoch, candidate: ReplicaKey, voters: VoterSet) -> None:
        """A replica takes itself for elected by these voters."""
        votes = [
            key
            for key in voters.keys.values()
            if self._has_vote(epoch, candidate, key)
            or (key.node_id == candidate.node_id and voters.includes(candidate))
        ]
        if len(votes) < voters.majority:
            raise Violation(
                f"elected without a majority: {candidate} in epoch {epoch} has the votes of"
                f" {', '.join(map(str, votes))} of the voters {voters}"
            )

    def _has_vote(self, epoch: LeaderEpoch, candidate: ReplicaKey, voter: ReplicaKey) -> bool:
        if voter.directory_id is None:
            return any(
                key.node_id == voter.node_id and voted_in == epoch and voted == candidate
                for (voted_in, key), voted in self._votes.items()
            )
        return self._votes.get((epoch, voter)) == candidate

    def has_copies(self, leader: ReplicaKey, entry: str, copies: int, voters: VoterSet) -> None:
        """A leader takes an entry for committed, which so many of its voters have on disk."""
        if copies < voters.majority:
            raise Violation(
                f"committed without a majority: {leader} commits {entry}, which {copies} of the"
                f" voters {voters} have on disk"
            )

    def uses_voters(self, replica: ReplicaKey, *, used: VotersAt, named: VotersAt) -> None:
        """What a replica takes for its voters, and what its log names last."""
        same = used.voters.keys == named.voters.keys
        if not same or used.voters.details != named.voters.details:
            raise Violation(
                f"{replica} uses the voters {used.voters} of {used.offset}, and its log names"
                f" {named.voters} at {named.offset}"
            )

    def changes_voters(
        self,
        leader: ReplicaKey,
        disk: ReplicaDisk,
        *,
        epoch: LeaderEpoch,
        before: VotersAt,
        after: VoterSet,
    ) -> None:
        """A leader appends another set of voters to its log."""
        at = before.offset
        if at >= len(self.committed) or (
            at >= disk.start_offset and disk.entry(at) != self.committed[at]
        ):
            raise Violation(f"{leader} changes the voters before the change at {at} is committed")
        if epoch not in self._committed_in:
            raise Violation(
                f"{leader} changes the voters before it has committed a record of epoch {epoch}"
            )
        ids, ids_after = set(before.voters.keys.values()), set(after.keys.values())
        if len(ids ^ ids_after) > 1:
            raise Violation(f"{leader} changes {before.voters} to {after} in one step")

    def voted(self, epoch: LeaderEpoch, voter: ReplicaKey, candidate: ReplicaKey) -> None:
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
                if entry.value <= VOTERS_MAX:
                    self.voter_changes += 1
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
