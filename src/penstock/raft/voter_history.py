"""The voter sets of a log, by the offsets of their records (KIP-853).

The last set in the log is in force at once, committed or not. Truncation takes it back. A snapshot
carries the set that was in force at its end.

Invariants:
 1. The offsets increase strictly. The first set is in the settings, in what formatting wrote (its
    offset is NOT_IN_LOG), or in a snapshot (its offset is that of the snapshot's last record).
"""

from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.raft.voters import VoterSet

NOT_IN_LOG = Offset(-1)


@dataclass(slots=True, kw_only=True)
class VotersAt:
    """The record at `offset` names these voters."""

    offset: Offset
    voters: VoterSet


class VoterHistory:
    def __init__(self, first: VoterSet) -> None:
        self._sets: list[VotersAt] = [VotersAt(offset=NOT_IN_LOG, voters=first)]

    @property
    def latest(self) -> VotersAt:
        return self._sets[-1]

    @property
    def previous(self) -> VoterSet | None:
        """The set before the latest; None where only one is known."""
        return self._sets[-2].voters if len(self._sets) > 1 else None

    def before(self, offset: Offset) -> VotersAt:
        """The set in force behind the records below `offset`."""
        for known in reversed(self._sets):
            if known.offset < offset:
                return known
        return self._sets[0]

    def append(self, at: VotersAt) -> None:
        assert at.offset > self.latest.offset, (at.offset, self.latest.offset)
        assert at.voters.keys, "a quorum has a voter"
        self._sets.append(at)

    def truncate(self, offset: Offset) -> None:
        """The log ends at `offset` now. The first set is below every truncation."""
        while len(self._sets) > 1 and self._sets[-1].offset >= offset:
            self._sets.pop()

    def trim(self, offset: Offset) -> None:
        """A snapshot holds everything below `offset`."""
        while len(self._sets) > 1 and self._sets[1].offset < offset:
            del self._sets[0]

    def install(self, offset: Offset, voters: VoterSet | None) -> None:
        """A snapshot that ends at `offset` takes the place of the log. It names no voters where
        these are fixed: then the first set stays.
        """
        first = (
            self._sets[0] if voters is None else VotersAt(offset=Offset(offset - 1), voters=voters)
        )
        self._sets = [first]

    def check(self) -> None:
        offsets = [known.offset for known in self._sets]
        assert offsets == sorted(set(offsets)), offsets  # invariant 1
