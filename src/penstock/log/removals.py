"""Deleted files that are still on disk: they are removed later, off the loop.

A deleted segment or partition is renamed at once, so that no start loads it. Removing gigabytes
takes time, and readers have `file.delete.delay.ms` to finish. After a stop, the next start finds
the rest by its name.
"""


class Removals:
    __slots__ = ("_added", "_waiting")

    def __init__(self) -> None:
        self._added: list[tuple[str, int]] = []  # path, delay; since the last look at the clock
        self._waiting: list[tuple[str, int]] = []  # path, when it is due

    def __len__(self) -> int:
        return len(self._added) + len(self._waiting)

    def add(self, *paths: str, delay_ms: int) -> None:
        """The delay is counted from the next `take_due`, so callers need not know the time."""
        assert delay_ms >= 0, delay_ms
        self._added.extend((path, delay_ms) for path in paths)

    def take_due(self, now_ms: int) -> list[str]:
        """The files and directories whose delay is over; the caller removes them."""
        self._waiting.extend((path, now_ms + delay_ms) for path, delay_ms in self._added)
        self._added.clear()
        due = [path for path, due_ms in self._waiting if due_ms <= now_ms]
        self._waiting = [one for one in self._waiting if one[1] > now_ms]
        return due
