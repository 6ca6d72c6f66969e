"""Follower: fetches from the leader of its epoch. An observer is a follower that never votes."""

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import SnapshotId


@dataclass(slots=True, kw_only=True)
class Follower:
    """At `deadline_ms` the leader is given up: a voter stands for election, an observer asks the
    voters who leads.
    """

    leader_id: NodeId
    deadline_ms: int
    heard_ms: int | None = None  # when the leader last replied to a fetch
    lost: bool = False  # it is known to be gone, whenever it spoke
    gave_way: bool = False  # since then, to another voter
    attempts: int = 0
    fetching: int | None = None  # the number of the fetch that is under way
    fetch_ms: int = 0  # when the next one may leave
    snapshot: SnapshotId | None = None  # the one that is being fetched
    position: int = 0

    @property
    def name(self) -> str:
        return "follower"

    def hears(self, now_ms: int, *, fetch_timeout_ms: int) -> bool:
        """Whether the leader seems to be alive: then there is nothing to vote about."""
        if self.lost or self.heard_ms is None:
            return False
        return now_ms < self.heard_ms + fetch_timeout_ms
