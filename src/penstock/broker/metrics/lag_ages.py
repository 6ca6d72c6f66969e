"""The lags of groups; their ages are read from the logs in turns, and remembered.

Each age costs a read from a file, often an old one, so there are METRICS_LAG_AGES_MAX in one round,
and the next round begins where this one had to stop. The time of a record does not change: a group
that stands still is read once, and keeps no other from its turn.
"""

from typing import NamedTuple

from penstock.broker.coordinators.group_lag import (
    Unread,
    known_end,
    unread_from,
    unread_since_ms,
)
from penstock.groups.lag import Lag, first_unread, lag
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.limit import METRICS_LAG_AGES_MAX
from penstock.model.offset import LeaderEpoch, Offset
from penstock.replication.replica import Replica


class _Place(NamedTuple):
    group: str
    partition: TopicPartition


class _Records(NamedTuple):
    """Those from an offset on. Another leader, or compaction, may have others there."""

    topic_id: TopicId
    leader_epoch: LeaderEpoch
    cleaned_offset: Offset | None
    from_offset: Offset
    until_offset: Offset | None  # None: whatever follows changes nothing


class LagAges:
    """Of one source, whose rounds follow each other. One that is given up leaves its turn to the
    next. At most as many are remembered as were asked for in a round.
    """

    def __init__(self) -> None:
        self._known: dict[_Place, tuple[_Records, Unread]] = {}
        self._seen: dict[_Place, tuple[_Records, Unread]] = {}  # in this round
        self._first = 0  # of those that are asked for in this round: earlier ones are not read
        self._asked = 0
        self._reads = 0
        self._stopped: int | None = None  # the first that found no turn
        self.without_age = 0  # lags of this round

    def begin_round(self) -> None:
        self._seen = {}
        self._asked = self._reads = self.without_age = 0
        self._stopped = None

    def end_round(self) -> None:
        self._known = self._seen
        self._first = self._stopped or 0

    def lag(self, group: str, replica: Replica, committed: Offset, *, now_ms: int) -> Lag:
        """The age is not known if it is not its turn."""
        start_offset, end_offset = replica.log.start_offset, known_end(replica)
        unread = first_unread(committed, start_offset=start_offset, end_offset=end_offset)
        since_ms = None
        if unread is not None:
            found = self._find(_Place(group, replica.name), replica, unread, end_offset)
            since_ms = None if found is None else unread_since_ms(found, now_ms=now_ms)
            if since_ms is None:
                self.without_age += 1
        return lag(
            committed,
            start_offset=start_offset,
            end_offset=end_offset,
            unread_since_ms=since_ms,
            now_ms=now_ms,
        )

    def _find(
        self, place: _Place, replica: Replica, offset: Offset, until_offset: Offset
    ) -> Unread | None:
        position = self._asked
        self._asked += 1
        log = replica.log
        records = _Records(
            log.topic_id, replica.leader_epoch, log.cleaned_offset, offset, until_offset
        )
        known = self._known.get(place)
        if known is not None and known[0] in (records, records._replace(until_offset=None)):
            self._seen[place] = known
            return known[1]
        if position < self._first:
            return None
        if self._reads >= METRICS_LAG_AGES_MAX:
            if self._stopped is None:
                self._stopped = position
            return None
        self._reads += 1
        found = unread_from(replica, offset, until_offset=until_offset)
        if not found.has_records:
            self._seen[place] = records, found
        elif found.is_settled:
            self._seen[place] = records._replace(until_offset=None), found
        return found
