"""How many lines of one event about one subject are written: the rest is counted.

`left_out` says how many lines were left out before one that is written; None: leave this one out,
too. The counts of a subject that is forgotten, because there are too many of them, are told with
the next line of the same event.
"""

LINES_MAX = 10
EVENT_LINES_MAX = 500  # whomever they are about: clients choose the names of groups
INTERVAL_MS = 10_000
SUBJECTS_MAX = 1_000


class _Window:
    __slots__ = ("left_out", "lines", "until_ms")

    def __init__(self, until_ms: int) -> None:
        self.until_ms = until_ms
        self.lines = 0
        self.left_out = 0


class EventLimit:
    """At most `lines_max` lines of each event and subject in `interval_ms`, and `event_lines_max`
    of each event.
    """

    def __init__(
        self,
        *,
        lines_max: int = LINES_MAX,
        event_lines_max: int = EVENT_LINES_MAX,
        interval_ms: int = INTERVAL_MS,
        subjects_max: int = SUBJECTS_MAX,
    ) -> None:
        assert min(lines_max, event_lines_max, interval_ms, subjects_max) > 0
        self._lines_max = lines_max
        self._event_lines_max = event_lines_max
        self._interval_ms = interval_ms
        self._subjects_max = subjects_max
        self._windows: dict[tuple[str, str], _Window] = {}  # the oldest first
        self._of_events: dict[str, _Window] = {}  # as many as the code has events
        self._forgotten: dict[str, int] = {}  # lines left out, by event

    def left_out(self, event: str, subject: str, *, now_ms: int) -> int | None:
        of_event = self._of_events.get(event)
        if of_event is None or now_ms >= of_event.until_ms:
            of_event = self._of_events[event] = _Window(now_ms + self._interval_ms)
        if of_event.lines >= self._event_lines_max:
            self._forgotten[event] = self._forgotten.get(event, 0) + 1
            return None
        key = (event, subject)
        window = self._windows.get(key)
        before = 0
        if window is None or now_ms >= window.until_ms:
            if window is not None:
                before = window.left_out
                del self._windows[key]
            elif len(self._windows) >= self._subjects_max:
                self._forget_oldest()
            window = self._windows[key] = _Window(now_ms + self._interval_ms)
        if window.lines >= self._lines_max:
            window.left_out += 1
            return None
        window.lines += 1
        of_event.lines += 1
        return before + self._forgotten.pop(event, 0)

    def check(self) -> None:
        assert len(self._windows) <= self._subjects_max
        for window in self._windows.values():
            assert 0 < window.lines <= self._lines_max
            assert window.left_out == 0 or window.lines == self._lines_max

    def _forget_oldest(self) -> None:
        key = next(iter(self._windows))
        left_out = self._windows.pop(key).left_out
        if left_out:
            event = key[0]
            self._forgotten[event] = self._forgotten.get(event, 0) + left_out
