"""Who wants to know that a write or a sync has failed, before anybody acts on it.

A failure may leave less on the disk than the page cache shows; who keeps a promise about a
directory takes it back first (`log/start_file`). Each is told once.
"""

from collections.abc import Callable


class Failures:
    """The watchers of one disk. `note` may be called by the threads that sync."""

    __slots__ = ("_watchers",)

    def __init__(self) -> None:
        self._watchers: dict[str, Callable[[], None]] = {}

    def watch(self, directory: str, failed: Callable[[], None]) -> None:
        """Has `failed` called at the first failure in `directory` or below it."""
        self._watchers[directory] = failed

    def note(self, path: str) -> None:
        """A write or a sync of this file or directory has failed."""
        for directory in list(self._watchers):
            if path == directory or path.startswith(f"{directory.rstrip('/')}/"):
                # Taken out first: what it does may fail, too.
                failed = self._watchers.pop(directory, None)
                if failed is not None:
                    failed()
