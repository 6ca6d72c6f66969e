"""What happened, line by line: hashed to compare two runs, kept to be read by people.

Every write to the disk and every piece on the network goes into the hash, so that two runs that
differ anywhere differ here. What people read is less: what clients did, faults, and log lines.
Events are kept as tuples; they become text when there are many of them, or when somebody asks.
"""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.sim.errors import ProcessKilled
from penstock.sim.loop import HOST, SimLoop

EVENTS_KEPT_MAX = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    at_us: int
    who: str
    what: str
    is_log: bool = False  # a log line of a node, or of a client

    def __str__(self) -> str:
        return f"{self.at_us / 1_000_000:10.6f}  {self.who:<12} {self.what}"


class Trace:
    def __init__(self, loop: SimLoop) -> None:
        self.lines: list[Line] = []
        self._loop = loop
        self._events: list[tuple[int, tuple[str | int, ...]]] = []  # not yet in the hash
        self._hash = hashlib.blake2b(digest_size=16)

    @property
    def hash(self) -> str:
        self._take_up()
        return self._hash.hexdigest()

    def detail(self, *what: str | int) -> None:
        """Something small: into the hash alone."""
        events = self._events
        events.append((self._loop.now_us, what))
        if len(events) >= EVENTS_KEPT_MAX:
            self._take_up()

    def note(self, who: str, what: str) -> None:
        """Something that a reader of the trace wants to know."""
        self.detail(who, what)
        self.lines.append(Line(at_us=self._loop.now_us, who=who, what=what))

    @contextmanager
    def log_lines(self, *, wanted: bool) -> Iterator[None]:
        """Log lines of the node and of its clients become remarks, or go nowhere."""
        handler = _Remarks(self)
        logger = logging.getLogger("penstock")
        before = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if wanted else logging.CRITICAL + 1)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]

    def remark(self, who: str, what: str, *, is_log: bool = False) -> None:
        """The same, for what may differ between two runs that are one, such as log lines, and for
        what is no event of the simulation but something that was seen of it.
        """
        self.lines.append(Line(at_us=self._loop.now_us, who=who, what=what, is_log=is_log))

    def _take_up(self) -> None:
        self._hash.update("".join([f"{at_us} {what!r}\n" for at_us, what in self._events]).encode())
        self._events.clear()


class _Remarks(logging.Handler):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and _is_crash(record.exc_info[1]):
            return  # a process that was killed writes nothing
        who = HOST.get() or "log"
        self._trace.remark(who, f"{record.levelname} {record.getMessage()}", is_log=True)
        if record.exc_info is not None:
            text = logging.Formatter().formatException(record.exc_info)
            self._trace.remark(who, text, is_log=True)


def _is_crash(failure: BaseException | None) -> bool:
    while failure is not None and not isinstance(failure, ProcessKilled):
        failure = failure.__cause__ or failure.__context__
    return failure is not None
