"""Leader: what the voters have, how far that commits, and whether a majority still fetches.

Invariants:
 1. The high watermark is moved only over records of the leader's own epoch: `commit_offset` is
    None until a majority has the leader-change record at `epoch_start`.
 2. A voter's end is what it named in a fetch of this epoch; none is known at first.
"""

from dataclasses import field

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.raft.messages import FetchRequest, Opaque
from penstock.raft.voters import ReplicaKey, VoterDetails, VoterSet


@dataclass(slots=True, kw_only=True)
class WaitingFetch:
    """A fetch that there is nothing for yet."""

    token: Opaque
    request: FetchRequest
    deadline_ms: int


@dataclass(slots=True, kw_only=True)
class ReplicaEnd:
    """Where a replica's durable log ends; the times are for those who watch the quorum."""

    offset: Offset
    fetched_ms: int
    caught_up_ms: int


@dataclass(slots=True, kw_only=True)
class Leader:
    epoch_start: Offset
    voters: VoterSet  # in force; the leader may have removed itself
    key: ReplicaKey
    ends: dict[NodeId, Offset]  # of voters
    fetched_ms: dict[NodeId, int]  # when each of the other voters last fetched
    observers: dict[ReplicaKey, ReplicaEnd] = field(default_factory=dict)
    caught_up_ms: dict[NodeId, int] = field(default_factory=dict)
    remind_ms: dict[NodeId, int] = field(default_factory=dict)  # when to send BeginEpoch next
    reminded: dict[NodeId, int] = field(default_factory=dict)  # under way: number of the request
    # What voters of a fixed set have said of themselves (UpdateRaftVoter).
    updates: dict[NodeId, tuple[ReplicaKey, VoterDetails]] = field(default_factory=dict)
    waiting: list[WaitingFetch] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "leader"

    def commit_offset(self) -> Offset | None:
        """What a majority has, if that includes a record of this epoch."""
        ends = sorted((self.ends.get(node, 0) for node in self.voters.node_ids), reverse=True)
        offset = Offset(ends[self.voters.majority - 1])
        return offset if offset > self.epoch_start else None  # invariant 1

    def quorum_until_ms(self, check_quorum_ms: int) -> int | None:
        """Until when the last fetches of a majority are recent enough; None where the leader is a
        majority alone.
        """
        needed = self.voters.majority - (1 if self.voters.includes(self.key) else 0)
        if needed == 0:
            return None
        latest = sorted(self.fetched_ms.values(), reverse=True)
        return latest[needed - 1] + check_quorum_ms

    def use(self, voters: VoterSet, own: ReplicaKey, now_ms: int) -> None:
        """Another set is in force. What is known of a replica stays known."""
        before, self.voters = self.voters, voters
        for key in before.keys.values():
            node = key.node_id
            if voters.keys.get(node) == key:
                continue
            end, fetched_ms = self.ends.pop(node, None), self.fetched_ms.pop(node, None)
            caught_up_ms = self.caught_up_ms.pop(node, -1)
            self.remind_ms.pop(node, None)
            self.reminded.pop(node, None)
            if end is not None and fetched_ms is not None and key.directory_id is not None:
                self.observers[key] = ReplicaEnd(
                    offset=end, fetched_ms=fetched_ms, caught_up_ms=caught_up_ms
                )
        for key in voters.keys.values():
            node = key.node_id
            if before.keys.get(node) == key or node == own.node_id:
                continue
            known = self.observers.pop(key, None)
            self.fetched_ms[node] = now_ms if known is None else known.fetched_ms
            self.remind_ms[node] = now_ms
            if known is not None:
                self.ends[node] = known.offset
                if known.caught_up_ms >= 0:
                    self.caught_up_ms[node] = known.caught_up_ms
