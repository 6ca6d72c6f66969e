"""Reports that a receiver has not taken yet: which one is sent next.

    add --> NEW -- tried --> (taken)
             |
             +-- given up --> LATE -- tried once, at an interval --> (taken)

Those that are new come first, in the order in which they were told. A report that was given up is
late: it is tried again at an interval, and at once when the receiver has taken another one. So a
receiver that is away for long hears of what fires when it is back, and a report that it always
refuses keeps no other one from it.

Invariants
 1  Reports of one alert are sent in the order in which they were told: if one is late, so are those
    behind it.
 2  Of an alert at most two reports are late: that it fires, and that it has cleared. When it fires
    again, those before are dropped: the receiver hears that it fires.
 3  There are at most `reports_max`; the oldest are dropped first.
"""

from collections.abc import Collection

from penstock.alerts.machine import State
from penstock.alerts.report import Report
from penstock.alerts.rule import Scope


class Undelivered:
    def __init__(self, *, reports_max: int, again_ms: int) -> None:
        self._reports_max = reports_max
        self._again_ms = again_ms
        self._new: dict[str, Report] = {}  # by id
        self._late: dict[str, Report] = {}
        self._late_at_ms = 0  # when the first of them is tried again

    def __len__(self) -> int:
        return len(self._new) + len(self._late)

    def __contains__(self, report: Report) -> bool:
        return report.id in self._new or report.id in self._late

    def is_late(self, report: Report) -> bool:
        return report.id in self._late

    def next(self, *, now_ms: int) -> Report | None:
        """The report to be sent now."""
        if self._new:
            return next(iter(self._new.values()))
        if self._late and now_ms >= self._late_at_ms:
            return next(iter(self._late.values()))
        return None

    def next_at_ms(self) -> int | None:
        """When a late report is to be sent; None: there is none."""
        return self._late_at_ms if self._late else None

    def check(self) -> None:
        states: dict[bytes, list[State]] = {}
        for report in self._late.values():
            states.setdefault(report.key, []).append(report.state)
        assert all(one.key not in states for one in self._new.values())  # invariant 1
        for told in states.values():  # invariant 2
            assert told in ([State.FIRING], [State.CLEARED], [State.FIRING, State.CLEARED])
        assert len(self) <= self._reports_max  # invariant 3

    def add(self, report: Report) -> int:
        """How many reports were dropped, since there are too many."""
        self._add(report, is_late=any(one.key == report.key for one in self._late.values()))
        dropped = 0
        while len(self) > self._reports_max:
            among = self._late or self._new
            among.pop(next(iter(among)))
            dropped += 1
        return dropped

    def taken(self, report: Report) -> None:
        """Whatever is late may be sent again at once."""
        self._new.pop(report.id, None)
        self._late.pop(report.id, None)
        self._late_at_ms = 0

    def given_up(self, report: Report, *, now_ms: int) -> None:
        """The alert goes behind all that are late, so that each has its turn."""
        if report not in self:
            return
        alert = [
            one for one in (*self._late.values(), *self._new.values()) if one.key == report.key
        ]
        for one in alert:
            self._new.pop(one.id, None)
            self._late.pop(one.id, None)
        for one in alert:
            self._add(one, is_late=True)
        self._late_at_ms = now_ms + self._again_ms

    def keep(self, scopes: Collection[Scope]) -> None:
        """Another node tells what belongs to other scopes."""
        for among in (self._new, self._late):
            for one in [one for one in among.values() if one.scope not in scopes]:
                del among[one.id]

    def _add(self, report: Report, *, is_late: bool) -> None:
        if not is_late:
            self._new[report.id] = report
            return
        is_firing = report.state is State.FIRING
        for one in [one for one in self._late.values() if one.key == report.key]:
            if is_firing or one.state is State.CLEARED:
                del self._late[one.id]
        self._late[report.id] = report
