"""An ordered task group: every task has an owner, and every run cancels in the same order.

asyncio's own group keeps its tasks in a set, so the order in which it cancels them differs from
run to run, which a deterministic simulation cannot have. This one keeps the order of creation.
The first failure cancels the rest and is raised as it is, not wrapped in a group: a node ends for
one reason.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

Result = TypeVar("Result")


class TaskGroup:
    """`async with TaskGroup() as group`: leaving waits for every task, or, with an error, cancels.

    `start` may be called at any time until the last task has ended, by the tasks themselves too.
    Once the group is cancelled, by a failure or from outside, it starts nothing that would not be
    cancelled at once: leaving would wait for that for ever.
    """

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._owner: asyncio.Task[Any] | None = None
        self._failure: BaseException | None = None
        self._leaving = False
        self._cancelled = False
        self._owner_interrupted = False
        self._empty: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    async def __aenter__(self) -> Self:
        self._owner = asyncio.current_task()
        assert self._owner is not None
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._leaving = True
        if error is not None:
            self.cancel()
        while self._tasks:
            self._empty = asyncio.get_running_loop().create_future()
            try:
                await self._empty
            except asyncio.CancelledError as cancelled:
                error = error or cancelled
                self.cancel()
        self._empty = None
        if self._owner_interrupted and error is None:
            # Our own interruption is on its way: taken here, it troubles no later await.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        if self._failure is None:
            return False if error is None else self._pass_on(error, kind)
        if self._owner_interrupted:
            # Our own interruption, taken back: the failure is what the caller is told.
            assert self._owner is not None
            self._owner.uncancel()
        raise self._failure

    def start(
        self, coroutine: Coroutine[Any, Any, Result], *, name: str | None = None
    ) -> asyncio.Task[Result]:
        assert self._owner is not None, "start before the group was entered"
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        if self._cancelled:
            task.cancel()
        return task

    def cancel(self) -> None:
        """Asks every task to end, in the order in which they were started."""
        self._cancelled = True
        for task in list(self._tasks):
            task.cancel()

    def fail(self, failure: BaseException) -> None:
        """Ends the group as a task of it would that raised this: for what the loop calls back."""
        if self._failure is None:
            self._failure = failure
            self.cancel()
            if not self._leaving:
                assert self._owner is not None
                self._owner_interrupted = True
                self._owner.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            self.fail(failure)
        if not self._tasks and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def _pass_on(self, error: BaseException, kind: type[BaseException] | None) -> bool:
        if kind is None:
            raise error
        return False
