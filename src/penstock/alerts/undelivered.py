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
        self._late: dict[bytes, tuple[Report, ...]] = {}  # by alert, as the key of its reports
        self._late_count = 0  # reports
        self._late_at_ms = 0  # when the first of them is tried again

    def __len__(self) -> int:
        return len(self._new) + self._late_count

    def __contains__(self, report: Report) -> bool:
        return report.id in self._new or self.is_late(report)

    def is_late(self, report: Report) -> bool:
        return any(one.id == report.id for one in self._late.get(report.key, ()))

    def next(self, *, now_ms: int) -> Report | None:
        """The report to be sent now."""
        if self._new:
            return next(iter(self._new.values()))
        if self._late and now_ms >= self._late_at_ms:
            return next(iter(self._late.values()))[0]
        return None

    def next_at_ms(self) -> int | None:
        """When a late report is to be sent; None: there is none."""
        return self._late_at_ms if self._late else None

    def check(self) -> None:
        assert all(one.key not in self._late for one in self._new.values())  # invariant 1
        for key, reports in self._late.items():  # invariant 2
            assert all(one.key == key for one in reports)
            told = [one.state for one in reports]
            assert told in ([State.FIRING], [State.CLEARED], [State.FIRING, State.CLEARED])
        assert self._late_count == sum(map(len, self._late.values()))
        assert len(self) <= self._reports_max  # invariant 3

    def add(self, report: Report) -> int:
        """How many reports were dropped, since there are too many."""
        if report.key in self._late:
            self._add_late(report)
        else:
            self._new[report.id] = report
        dropped = 0
        while len(self) > self._reports_max:
            self._drop_oldest()
            dropped += 1
        return dropped

    def taken(self, report: Report) -> None:
        """Whatever is late may be sent again at once."""
        self._new.pop(report.id, None)
        late = self._late.get(report.key, ())
        self._set_late(report.key, tuple(one for one in late if one.id != report.id))
        self._late_at_ms = 0

    def given_up(self, report: Report, *, now_ms: int) -> None:
        """The alert goes behind all that are late, so that each has its turn."""
        if report not in self:
            return
        late = self._late.get(report.key, ())
        new = [one for one in self._new.values() if one.key == report.key]
        self._set_late(report.key, ())
        for one in late:
            self._add_late(one)
        for one in new:
            del self._new[one.id]
            self._add_late(one)
        self._late_at_ms = now_ms + self._again_ms

    def keep(self, scopes: Collection[Scope]) -> None:
        """Another node tells what belongs to other scopes."""
        self._new = {key: one for key, one in self._new.items() if one.scope in scopes}
        for key, reports in list(self._late.items()):
            if reports[0].scope not in scopes:
                self._set_late(key, ())

    def _drop_oldest(self) -> None:
        if self._late:
            key, reports = next(iter(self._late.items()))
            self._set_late(key, reports[1:])
        else:
            del self._new[next(iter(self._new))]

    def _add_late(self, report: Report) -> None:
        before = self._late.get(report.key, ())
        if report.state is State.FIRING:
            self._set_late(report.key, ())  # it goes behind the others
            before = ()
        kept = tuple(one for one in before if one.state is State.FIRING)
        self._set_late(report.key, (*kept, report))

    def _set_late(self, key: bytes, reports: tuple[Report, ...]) -> None:
        self._late_count += len(reports) - len(self._late.get(key, ()))
        if reports:
            self._late[key] = reports
        else:
            self._late.pop(key, None)
