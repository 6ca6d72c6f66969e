"""All that a replica knows. The rules are in `elections`, `following` and `leading`.

Invariants:
 1. high_watermark <= log.end_offset, and it never moves back.
 2. A replica that leads, or stands for election, is a voter, or was one and does not know its
    removal to be committed.
 3. The role agrees with what is on disk: a candidate and a leader voted for themselves, a follower
    follows the leader that is noted.
"""

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.effects import Effect, HardState, Persist, Send
from penstock.raft.log_ends import LogEnds
from penstock.raft.messages import Request
from penstock.raft.roles.candidate import Candidate
from penstock.raft.roles.follower import Follower
from penstock.raft.roles.leader import Leader
from penstock.raft.roles.prospective import Prospective
from penstock.raft.roles.resigned import Resigned
from penstock.raft.roles.unattached import Unattached
from penstock.raft.times import Draw, Times
from penstock.raft.voter_history import VoterHistory
from penstock.raft.voters import ReplicaKey, VoterSet

Role = Unattached | Follower | Prospective | Candidate | Leader | Resigned


class ReplicaState:
    """The state of one replica; effects gather in `effects`, in order."""

    def __init__(
        self,
        *,
        key: ReplicaKey,
        voter_sets: VoterHistory,
        bootstrap: tuple[NodeId, ...],
        times: Times,
        draw: Draw,
        hard: HardState,
        log: LogEnds,
    ) -> None:
        self.key = key
        self.voter_sets = voter_sets
        self.bootstrap = bootstrap  # asked for the leader, beside the voters
        self.times = times
        self.draw = draw
        self.epoch: LeaderEpoch = hard.epoch
        self.leader_id: NodeId | None = hard.leader_id
        self.voted: ReplicaKey | None = hard.voted
        self.log = log
        # What a snapshot holds was committed; nothing more is known at first.
        self.high_watermark: Offset = (
            log.start_offset if log.snapshot is None else log.snapshot.offset
        )
        self.role: Role = Unattached(leader_id=None, elect_ms=None)
        self.hurry = True  # the short wait before an election has not been used yet
        self.effects: list[Effect] = []
        self._next_number = 0

    @property
    def voters(self) -> VoterSet:
        """Those in force: the last set in the log, committed or not."""
        return self.voter_sets.latest.voters

    @property
    def is_voter(self) -> bool:
        return self.voters.includes(self.key)

    @property
    def may_stand(self) -> bool:
        """Whether this replica stands for election: it votes, or its removal may not be committed
        yet. Then the others may need it, since its log may be the longest. It does not count
        itself.
        """
        if self.is_voter:
            return True
        if self.high_watermark > self.voter_sets.latest.offset:
            return False
        previous = self.voter_sets.previous
        return previous is not None and previous.includes(self.key)

    @property
    def other_voters(self) -> tuple[ReplicaKey, ...]:
        return self.voters.others(self.key.node_id)

    @property
    def known_leader(self) -> NodeId | None:
        """The leader of this epoch, for those who ask. A replica that has resigned leads no more,
        whatever it became since, and whatever its disk says.
        """
        if self.leader_id == self.key.node_id and not isinstance(self.role, Leader):
            return None
        return self.leader_id

    def persist(self) -> None:
        hard = HardState(epoch=self.epoch, leader_id=self.leader_id, voted=self.voted)
        self.effects.append(Persist(state=hard))

    def send(self, to: NodeId, request: Request) -> int:
        """Sends a request and returns its number."""
        self._next_number += 1
        self.effects.append(Send(to=to, number=self._next_number, request=request))
        return self._next_number

    def check(self) -> None:
        self.log.check()
        assert self.high_watermark <= self.log.end_offset  # invariant 1
        self.voter_sets.check()
        role = self.role
        if isinstance(role, Leader | Candidate | Prospective):
            assert self.may_stand, self.key  # invariant 2
        if isinstance(role, Leader | Candidate):  # invariant 3
            assert self.voted == self.key, (self.voted, self.key)
        if isinstance(role, Leader):
            assert self.leader_id == self.key.node_id
        if isinstance(role, Follower):
            assert self.leader_id == role.leader_id
