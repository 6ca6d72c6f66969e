"""Work that must be awaited, run beside a loop that must not wait: connect, refresh, look up.

Each task has a name and is under way at most once. One that fails with a ClientError has only
failed this time: it ends after the backoff, so that whoever needs it can ask again and does not
ask too often.
"""

import asyncio
from collections.abc import Callable, Coroutine

from penstock.client.network.errors import ClientError
from penstock.world.tasks import TaskGroup


class BackgroundTasks:
    def __init__(self, tasks: TaskGroup, *, done: Callable[[], None], backoff_ms: int) -> None:
        self._tasks = tasks
        self._done = done
        self._backoff_ms = backoff_ms
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    def run(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Starts it, unless it is under way already; `done` is called when it has ended, well or
        not.
        """
        if name not in self._under_way and not self._closed:
            self._under_way[name] = self._tasks.start(self._run(name, work), name=name)

    def close(self) -> None:
        self._closed = True
        for task in list(self._under_way.values()):
            task.cancel()

    async def _run(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await work()
        except ClientError:
            await asyncio.sleep(self._backoff_ms / 1000)
        finally:
            del self._under_way[name]
            self._done()
